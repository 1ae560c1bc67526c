"""Continuous integration checks the results of the performance tests."""

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

from netpipe.gate.outcomes import Outcome
from tests.root_process import ROOT

check = runpy.run_path(f"{ROOT}/.ci/check_suite.py")["main"]

JUNIT = '<testsuites><testsuite name="pytest" tests="18" time="{time}"></testsuite></testsuites>'


def write_results(folder: Path, outcome: Outcome, time_s: float = 59.0, **fields: Any) -> list[str]:
    """Write the two files of a run with a comparison of work; return their paths."""
    row = {"quantity": "work", "against": None, "reason": "calls: 7, was 8"}
    run = {"comparisons": [{**row, "outcome": outcome, **fields}]}
    (folder / "run.json").write_text(json.dumps(run))
    (folder / "suite.xml").write_text(JUNIT.format(time=time_s))
    return [f"{folder}/run.json", f"{folder}/suite.xml"]


def test_a_stale_baseline_of_work(tmp_path: Path) -> None:
    """Less work than in the baseline asks for a new one: a rise to the old count would pass."""
    with pytest.raises(SystemExit, match=r"calls: 7, was 8\nrecord a baseline .*--netpipe-record"):
        check(*write_results(tmp_path, Outcome.IMPROVED))


@pytest.mark.parametrize(
    ("outcome", "of"),
    [
        (Outcome.PASS, {}),
        (Outcome.IMPROVED, {"against": "main"}),
        (Outcome.IMPROVED, {"quantity": "load_s_per_batch"}),
    ],
)
def test_other_outcomes(tmp_path: Path, outcome: Outcome, of: dict[str, Any]) -> None:
    """Work as in the baseline, and improvements that need no new baseline, are in order."""
    check(*write_results(tmp_path, outcome, **of))


@pytest.mark.parametrize(("time_s", "relation"), [(59.0, "within"), (61.0, "above")])
def test_the_time_is_only_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], time_s: float, relation: str
) -> None:
    """The ceiling fails no run, because machines differ."""
    check(*write_results(tmp_path, Outcome.PASS, time_s))
    assert f"took {time_s:g} s, {relation} the ceiling of 60 s" in capsys.readouterr().out
