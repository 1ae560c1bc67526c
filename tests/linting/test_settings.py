"""The lint settings of a project."""

from pathlib import Path

import pytest

from netpipe.errors import InputError
from netpipe.linting.settings import LintSettings, read_lint_settings


def project(folder: Path, text: str) -> Path:
    """Write a project's settings; return a folder within the project."""
    (folder / "pyproject.toml").write_text(text, encoding="utf-8")
    inside = folder / "a" / "b"
    inside.mkdir(parents=True)
    return inside


def test_a_project_sets_its_intent_and_its_silences(tmp_path: Path) -> None:
    """They are read from the nearest pyproject.toml in the folder or above it."""
    inside = project(
        tmp_path,
        '[tool.netpipe.lint]\nintent = "reproducible"\n'
        '[tool.netpipe.lint.silence]\nthreads-in-workers = "our bucket is remote"\n',
    )
    silences = {"threads-in-workers": "our bucket is remote"}
    assert read_lint_settings(inside) == LintSettings("reproducible", silences)


def test_the_nearest_project_counts(tmp_path: Path) -> None:
    """A project within another one has settings of its own."""
    inside = project(tmp_path, '[tool.netpipe.lint]\nintent = "reproducible"\n')
    (inside / "pyproject.toml").write_text("", encoding="utf-8")
    assert read_lint_settings(inside) == LintSettings()


def test_the_defaults_hold_without_settings(tmp_path: Path) -> None:
    """The default is throughput, without silences."""
    assert read_lint_settings(project(tmp_path, "[project]\nname = 'x'\n")) == LintSettings()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool.netpipe.lint]\nintent = 'speed'", "tool.netpipe.lint.intent must be one of"),
        ("[tool.netpipe.lint]\nintend = 'x'", "key must be intent or silence; found 'intend'"),
        ("[tool.netpipe]\nlint = 1", "tool.netpipe.lint must be a table; found 1"),
        ("tool = 1", "tool.netpipe.lint must be a table; found 1"),
        ("[tool.netpipe.lint]\nsilence = 1", "tool.netpipe.lint.silence must be a table"),
        ("[tool.netpipe.lint.silence]\nbatching = 'x'", "key must be one of nested-mp-prefetch"),
        ("[tool.netpipe.lint.silence]\nno-prefetch = ' '", "no-prefetch must be the reason"),
        ("[tool.netpipe.lint.silence]\nno-prefetch = true", "no-prefetch must be the reason"),
        ("[tool.", "file must be TOML"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, message: str) -> None:
    """File, key, constraint and value are in the error."""
    with pytest.raises(InputError, match=message) as raised:
        read_lint_settings(project(tmp_path, text))
    assert str(tmp_path / "pyproject.toml") in str(raised.value)
