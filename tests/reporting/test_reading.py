"""An invalid file is refused with the reason and a way out."""

import json
from pathlib import Path

import pytest

from netpipe.errors import InputError
from netpipe.reporting.parts import SCHEMAS
from netpipe.reporting.rendering import read_document
from tests.reporting.examples import diagnosis, every_document, measurement

EVERY = every_document()


def write(folder: Path, content: object) -> Path:
    """Write a document."""
    path = folder / "result.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@pytest.mark.parametrize("name", EVERY)
def test_every_document_is_read_as_it_is(name: str, tmp_path: Path) -> None:
    """The examples of these tests are documents that fit their schemas."""
    assert read_document(write(tmp_path, EVERY[name])) == json.loads(json.dumps(EVERY[name]))


def test_there_is_an_example_of_every_schema() -> None:
    """The tests here cover every kind of document."""
    assert {document["schema"] for document in EVERY.values()} == set(SCHEMAS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "JSON.*--json"),
        ("[" * 100_000, "JSON"),
        ("[]", "schema.*netpipe.measurement/1.*None"),
        ({"schema": 1}, "schema.* 1"),
        ({"schema": "netpipe.session/1"}, "schema.*'netpipe.session/1'.*--json"),
        ({"schema": "netpipe.lint/2"}, "schema.*'netpipe.lint/2'.*upgrade"),
        ({"schema": "netpipe.lint/1"}, "'intent'"),
    ],
)
def test_another_file_is_refused(content: object, message: str, tmp_path: Path) -> None:
    """The error names the file, the field, its constraint, its value, and the way out."""
    path = write(tmp_path, content)
    with pytest.raises(InputError, match=message) as refused:
        read_document(path)
    assert str(path) in str(refused.value)


def test_a_wrong_field_is_named(tmp_path: Path) -> None:
    """The error has the field's path in the document, its bound and its value."""
    wrong = measurement()
    wrong["step_s"]["n"] = 0
    with pytest.raises(InputError, match=r"step_s\.n .* 1;.* 0"):
        read_document(write(tmp_path, wrong))


@pytest.mark.parametrize("field", ["cpu", "cores", "memory_bytes", "container"])
def test_what_a_page_shows_of_a_host_is_there(field: str, tmp_path: Path) -> None:
    """A diagnosis without the host is refused before a page is made."""
    path = write(tmp_path, diagnosis())
    assert read_document(path)["host"].keys() >= {field}
    wrong = json.loads(path.read_text())
    del wrong["host"][field]
    with pytest.raises(InputError, match=rf"host must .*'{field}'"):
        read_document(write(tmp_path, wrong))
