"""The lint settings of a project."""

from pathlib import Path

import pytest

from netpipe.errors import InputError
from netpipe.linting.lint_request import LintRequest
from netpipe.linting.settings import read_lint_settings


def project(folder: Path, text: str) -> Path:
    """Write a project's settings; return a folder within the project."""
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    inside = folder / "a" / "b"
    inside.mkdir(parents=True)
    return inside


def test_a_project_sets_its_intent_and_its_silences(tmp_path: Path) -> None:
    """Settings are read from the nearest pyproject.toml in the folder or above it."""
    inside = project(
        tmp_path,
        '[tool.netpipe.lint]\nintent = "reproducible"\n'
        '[tool.netpipe.lint.silence]\nthreads-in-workers = "our bucket is remote"\n',
    )
    silences = {"threads-in-workers": "our bucket is remote"}
    assert read_lint_settings(inside) == LintRequest(intent="reproducible", silences=silences)


def test_the_nearest_project_counts(tmp_path: Path) -> None:
    """A project within another one has settings of its own."""
    inside = project(tmp_path, '[tool.netpipe.lint]\nintent = "reproducible"\n')
    (inside / "pyproject.toml").write_text("", encoding="utf-8")
    assert read_lint_settings(inside) == LintRequest()


def test_the_defaults_hold_without_settings(tmp_path: Path) -> None:
    """The default is throughput, without silences."""
    assert read_lint_settings(project(tmp_path, "[project]\nname = 'x'\n")) == LintRequest()


@pytest.mark.parametrize(
    ("text", "field", "wanted", "found"),
    [
        ("[{}]\nintent = 'speed'", "{}.intent", "throughput, reproducible", "'speed'"),
        ("[{}]\nintend = 'x'", "{} key", "intent or silence", "'intend'"),
        ("[tool.netpipe]\nlint = 1", "{}", "a table", "1"),
        ("tool = 1", "{}", "a table", "1"),
        ("[{}]\nsilence = 1", "{}.silence", "a table", "1"),
        ("[{}.silence]\nbatching = 'x'", "{}.silence key", "nested-mp-prefetch", "'batching'"),
        ("[{}.silence]\nno-prefetch = ' '", "{}.silence.no-prefetch", "reason", "' '"),
        ("[{}.silence]\nno-prefetch = true", "{}.silence.no-prefetch", "reason", "True"),
        ("[tool.", "file", "TOML", ""),
    ],
)
def test_a_wrong_setting_is_named(
    tmp_path: Path, text: str, field: str, wanted: str, found: str
) -> None:
    """File, key, constraint and value are in the error."""
    table = "tool.netpipe.lint"
    with pytest.raises(InputError) as raised:
        read_lint_settings(project(tmp_path, text.format(table)))
    error = raised.value
    assert (error.where, error.field) == (tmp_path / "pyproject.toml", field.format(table))
    assert wanted in error.constraint
    assert str(error.found).startswith(found)
