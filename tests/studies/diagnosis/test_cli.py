"""`python -m perf_tests.studies.diagnosis`: trials are kept at once, and none is run twice."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from perf_tests.studies.diagnosis import naming as naming_trials
from perf_tests.studies.diagnosis import predicting as predicting_trials
from perf_tests.studies.diagnosis.__main__ import main
from perf_tests.studies.diagnosis.naming import Naming
from perf_tests.studies.diagnosis.predicting import Predicting
from perf_tests.studies.faults.cases import Case
from perf_tests.studies.records import read_records
from tests.studies.diagnosis.trials_of_diagnosis import naming, predicting

Ran = list[tuple[str, int]]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    """Make trials instant: seed 3 gives wrong answers, seed 5 is interrupted."""
    asked: Ran = []

    def name(case: Case, seed: int, _: float) -> Naming:
        asked.append((case.name, seed))
        return naming(right=seed != 3, case=case.name, seed=seed)

    def predict(seed: int, _: float) -> Iterator[Predicting]:
        if seed == 5:
            raise KeyboardInterrupt
        asked.append(("", seed))
        yield predicting(0.020 if seed != 3 else 0.090, seed=seed)

    def predict_reads(seed: int, _: float) -> Iterator[Predicting]:
        asked.append(("reads", seed))
        yield predicting(0.021, kind="reads-in-flight", seed=seed)

    monkeypatch.setattr(naming_trials, "run", name)
    monkeypatch.setattr(predicting_trials, "run", predict)
    monkeypatch.setattr(predicting_trials, "run_slow_reads", predict_reads)
    return asked


def invoke(*arguments: str) -> Result:
    """Run the command."""
    return CliRunner().invoke(main, arguments)


def test_planted_cases_are_named_and_kept(ran: Ran, tmp_path: Path) -> None:
    """Only cases with a stage are diagnosed; a second run adds what is missing."""
    file = str(tmp_path / "named.jsonl")
    result = invoke(
        "named", "--seeds", "1", "--only", "*-map", "--only", "sync-*", "--trials", file
    )
    assert result.exit_code == 0, result.output
    assert {case for case, _ in ran} == {
        *("slow-map", "slow-computing-map", "hashing-map", "copying-map")
    }
    assert "| slow-map | Source: waiting | Source: waiting | 1 of 1 |" in result.output
    invoke("named", "--seeds", "2", "--only", "slow-map", "--trials", file)
    assert ran[4:] == [("slow-map", 2)]
    assert len(read_records(Path(file), Naming)) == 5


def test_predictions_are_kept_and_not_run_again(ran: Ran, tmp_path: Path) -> None:
    """Trials in the file survive an interruption, and the next run continues after them."""
    file = str(tmp_path / "trials.jsonl")
    invoke("predicted", "--first", "4", "--seeds", "3", "--trials", file)
    assert ran == [("", 4)]
    result = invoke("predicted", "--first", "3", "--seeds", "2", "--trials", file)
    assert ran == [("", 4), ("", 3)]
    assert [trial.seed for trial in read_records(Path(file), Predicting)] == [4, 3]
    assert result.exit_code == 1  # one in two is off
    assert "| all predictions | 2 | 0 | 50.0%" in result.output


def test_no_minutes_run_nothing(ran: Ran, tmp_path: Path) -> None:
    """With --minutes 0 only the table is printed."""
    file = str(tmp_path / "trials.jsonl")
    invoke("predicted", "--first", "1", "--seeds", "1", "--trials", file)
    result = invoke("predicted", "--minutes", "0", "--trials", file)
    assert result.exit_code == 0
    assert len(ran) == 1
    assert "| workers | 1 | 0 |" in result.output


@pytest.mark.usefixtures("ran")
def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    """Trials of the other kind are not counted."""
    file = tmp_path / "trials.jsonl"
    invoke("predicted", "--seeds", "1", "--trials", str(file))
    result = invoke("named", "--trials", str(file))
    assert result.exit_code == 1
    assert "hold a Naming" in result.output


def test_an_unknown_case_is_refused() -> None:
    """A name that matches nothing is named."""
    result = invoke("named", "--only", "slow-horse")
    assert result.exit_code == 2
    assert "found 'slow-horse'" in result.output


def test_trials_of_slow_reads_are_kept_like_others(ran: Ran, tmp_path: Path) -> None:
    """Slow reads have their own row, and 20 seeds by default."""
    file = str(tmp_path / "reads.jsonl")
    result = invoke("reads", "--first", "1", "--trials", file)
    assert ran == [("reads", seed) for seed in range(1, 21)]
    assert result.exit_code == 0
    assert "| reads-in-flight | 20 | 0 | 100.0%" in result.output
    assert invoke("reads", "--seeds", "20", "--trials", file).exit_code == 0
    assert len(ran) == 20
