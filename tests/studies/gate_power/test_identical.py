"""Runs of the performance tests on unchanged code: their records and counts."""

from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from perf_tests.studies.gate_power import identical
from perf_tests.studies.gate_power.identical import Figure, SuiteRun, main, run
from perf_tests.studies.records import append_record, read_records

STEP = Figure("test_step_time", "step_s", "PASS", 1.02, "step_s is 1.02 x that of a")
FINE = SuiteRun(
    "abc",
    "2026-11-22T10:00:00+00:00",
    False,
    0,
    90.0,
    0.05,
    (),
    (),
    (STEP,),
    ({"step_s": 0.1},),
    "",
)
SLOWER = replace(STEP, outcome="REGRESSED", worse_ratio=2.02)
FAILED = replace(FINE, exit_code=1, failures=("test_step: 2.02",), log="1 failed")
ALARM = replace(FAILED, is_busy=True, figures=(SLOWER,))

PROJECT = """
import pytest

@pytest.fixture
def broken():
    yield
    raise RuntimeError("not torn down")

def test_fine(): pass
def test_failed(): assert 1 == 2
def test_error(broken): pass
"""


def test_failures_and_errors_are_distinguished(tmp_path: Path) -> None:
    """A failed test is a failure; one whose teardown fails is an error; both have their message."""
    (tmp_path / "test_it.py").write_text(PROJECT)
    found = run([str(tmp_path), "-p", "no:cacheprovider"], is_busy=False)
    assert found.exit_code == 1
    assert [line.partition(":")[0] for line in found.failures] == ["test_failed"]
    assert [line.partition(":")[0] for line in found.errors] == ["test_error"]
    assert "not torn down" in found.errors[0]
    assert "1 failed" in found.log


def test_a_run_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    """A run that is ended has no exit code, and its log has the reason."""
    (tmp_path / "test_it.py").write_text("import time\ndef test_it(): time.sleep(600)\n")
    found = run([str(tmp_path), "-p", "no:cacheprovider"], is_busy=False, limit_s=0.5)
    assert found.exit_code is None
    assert "more than 0.5 s" in found.log


def test_the_suite_is_continued_where_it_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the missing runs are made; every second run is beside a busy program."""
    path = tmp_path / "identical.jsonl"
    append_record(path, FINE)
    monkeypatch.setattr(identical, "run", lambda _, *, is_busy: replace(FINE, is_busy=is_busy))
    result = CliRunner().invoke(main, ["--runs", "4", "--trials", str(path)])
    assert result.exit_code == 0, result.output
    assert [run.is_busy for run in read_records(path, SuiteRun)] == [False, True, False, True]


def test_no_minutes_run_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --minutes 0 only the table is printed; an alarm makes the exit code 1."""
    path = tmp_path / "identical.jsonl"
    append_record(path, FINE)
    append_record(path, ALARM)
    monkeypatch.setattr(identical, "run", None)
    result = CliRunner().invoke(main, ["--minutes", "0", "--trials", str(path)])
    assert result.exit_code == 1
    assert "alarm | 0 of 1 | 1 of 1 | 1 of 2 |" in result.stdout


def test_figures_are_read_from_the_document_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each metric that was compared is kept with its outcome, and the metrics of each session."""
    document = (
        '{"comparisons": [{"benchmark": "perf_tests/t.py::test_step_time", "metric": "step_s",'
        ' "outcome": "PASS", "worse_ratio": 1.02, "reason": "step_s is 1.02 x that of a"}],'
        ' "measurements": [{"step_s": {"median": 0.1}, "busy_elsewhere_fraction": 0.2}]}'
    )

    def measured(arguments: list[str], _: float) -> tuple[int, str]:
        Path(arguments[-1].partition("=")[2]).write_text(document)
        return 0, "passed"

    monkeypatch.setattr(identical, "_run_pytest", measured)
    found = run(["perf_tests"], is_busy=False)
    assert found.figures == (STEP,)
    assert found.sessions[0]["step_s"] == 0.1
    assert found.sessions[0]["busy_elsewhere_fraction"] == 0.2
    path = tmp_path / "identical.jsonl"
    append_record(path, found)
    assert read_records(path, SuiteRun) == [found]
