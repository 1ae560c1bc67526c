"""The verdict on a change, and the outcomes that a project declares."""

from pathlib import Path

import pytest

from netpipe.errors import InputError
from netpipe.judge.declared import read_declared
from netpipe.judge.judgement import Check, declare, judge_checks

FINE, WORSE = Check("complete", "COMPLETE", "whole"), Check("data", "SAME_ELEMENTS", "moved")
OPEN, UNSURE = Check("memory", "NOT_COMPARED", "unknown"), Check("faster", "INCONCLUSIVE", "busy")


@pytest.mark.parametrize(
    ("checks", "verdict", "decisive"),
    [
        ([FINE, FINE], "ACCEPTED", []),
        ([FINE, OPEN], "UNDECIDED", ["memory"]),
        ([FINE, UNSURE], "UNDECIDED", ["faster"]),
        ([OPEN, WORSE, FINE], "REFUSED", ["data"]),
        ([], "UNDECIDED", []),
    ],
)
def test_the_worst_check_decides(checks: list[Check], verdict: str, decisive: list[str]) -> None:
    """A change is accepted only if every check was made and is fine."""
    found = judge_checks(checks, "main", "input.py:batches")
    assert (found.verdict, found.decisive) == (verdict, decisive)


def test_an_unknown_outcome_is_worse() -> None:
    """An outcome without a meaning passes nothing."""
    assert Check("data", "RENAMED", "").status == "worse"


def test_a_declared_outcome_is_accepted_with_its_reason() -> None:
    """Only the declared outcome of that question is accepted; a fine one needs no reason."""
    reasons = {"data SAME_ELEMENTS": "sorted", "complete COMPLETE": "nothing"}
    accepted = declare(WORSE, reasons)
    assert (accepted.status, accepted.declared) == ("fine", "sorted")
    assert declare(Check("data", "DIFFERENT", ""), reasons).status == "worse"
    assert declare(Check("shuffled", "SAME_ELEMENTS", ""), reasons).status == "worse"
    assert declare(FINE, reasons) == FINE


def write_project(folder: Path, text: str) -> Path:
    """Write a pyproject.toml with lines of the table; return its folder."""
    folder.mkdir()
    (folder / "pyproject.toml").write_text(f"[tool.netpipe.judge.accept]\n{text}")
    return folder


def test_a_change_is_declared_where_it_is_made(tmp_path: Path) -> None:
    """A line that the base has too is ignored, unless it is for a check that cannot be made."""
    lasting = '"complete NOT_COMPARED" = "an epoch has a billion elements"\n'
    base = write_project(tmp_path / "base", lasting + '"data DIFFERENT" = "other tokens"\n')
    same = '"data DIFFERENT" = "other tokens"\n'
    assert [*read_declared(write_project(tmp_path / "same", lasting + same), base)] == [
        "complete NOT_COMPARED"
    ]
    new = '"data DIFFERENT" = "other tokens again"\n'
    assert [*read_declared(write_project(tmp_path / "new", new), base)] == ["data DIFFERENT"]
    assert read_declared(tmp_path, base) == {}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('"data" = "why"', "key must be a question and an outcome"),
        ('"date DIFFERENT" = "why"', "found 'date DIFFERENT'"),
        ('"data different" = "why"', "key must be a question and an outcome"),
        ('"data SAME_ELEMENT" = "why"', "of .* SAME_ELEMENTS, .*found 'data SAME_ELEMENT'"),
        ('"data DIFFERENT" = " "', "must be the reason, as text"),
        ('"data DIFFERENT" = true', "must be the reason, as text"),
    ],
)
def test_a_wrong_declaration_is_refused(tmp_path: Path, line: str, words: str) -> None:
    """The error names the file, the key and the constraint."""
    project = write_project(tmp_path / "project", line)
    with pytest.raises(InputError, match=words) as raised:
        read_declared(project, tmp_path)
    assert str(raised.value).startswith(str(project / "pyproject.toml"))
