"""Documents from files: what is none of ours is refused, by name."""

import json
from pathlib import Path

import pytest

from netpipe.errors import InputError
from netpipe.page.parts import SCHEMAS
from netpipe.page.reading import read_document
from tests.page.examples import every_document, measurement

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
    """So that none is left out of the tests here."""
    assert {one["schema"] for one in EVERY.values()} == set(SCHEMAS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"file must be JSON; found .*\. .* --json"),
        ("[" * 100_000, "file must be JSON"),
        ("[]", "schema must be one of netpipe.measurement/1, .*; found None"),
        ({"schema": 1}, "schema must be one of .*; found 1"),
        ({"schema": "netpipe.session/1"}, "found 'netpipe.session/1'.*--json"),
        ({"schema": "netpipe.lint/2"}, "found 'netpipe.lint/2'. A newer netpipe wrote it"),
        ({"schema": "netpipe.lint/1"}, r"fit its schema \('intent' is a required property\)"),
    ],
)
def test_another_file_is_refused(content: object, message: str, tmp_path: Path) -> None:
    """The error names the file, the field, what it must be, what it is, and the way out."""
    path = write(tmp_path, content)
    with pytest.raises(InputError, match=message) as refused:
        read_document(path)
    assert str(path) in str(refused.value)


def test_a_wrong_field_is_named(tmp_path: Path) -> None:
    """By its path in the document."""
    wrong = measurement()
    wrong["step_s"]["n"] = 0
    with pytest.raises(InputError, match=r"step_s\.n must be at least 1; found 0"):
        read_document(write(tmp_path, wrong))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """As one that cannot be read."""
    with pytest.raises(InputError, match=r"absent\.json: file must be readable; found No such"):
        read_document(tmp_path / "absent.json")
