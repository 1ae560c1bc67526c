"""Tables and goals of made-up trials."""

from dataclasses import replace

import pytest

from perf_tests.studies.diagnosis import naming_report, predicting_report
from perf_tests.studies.diagnosis.predicting import Predicting
from tests.studies.diagnosis.trials_of_diagnosis import naming, predicting


def test_a_row_has_every_answer_about_a_case() -> None:
    """Each answer is listed once, with the number of right trials; rates follow."""
    trials = [naming(), naming(seed=2), naming(right=False, seed=3), naming(case="slow-thread")]
    lines = list(naming_report.format_table(trials))
    cells = [cell.strip() for cell in lines[2].split("|")]
    answers = "Source: waiting; Map of Transform: waiting"
    assert cells[1:5] == ["slow-source", "Source: waiting", answers, "2 of 3"]
    assert lines[3].endswith("| 1 of 1 |")
    assert any(line.endswith("resource: 3 of 4, 75.0% (30 to 95)") for line in lines)
    assert any(line.startswith("- resource: 4 of 4, 100.0%") for line in lines)


def test_nine_in_ten_must_be_named() -> None:
    """The goal holds at its limit, and no trials show nothing."""
    assert naming_report.meets_goal([naming()] * 9 + [naming(right=False)])
    assert not naming_report.meets_goal([naming()] * 8 + [naming(right=False)])
    assert not naming_report.meets_goal([])


def test_a_line_explains_a_wrong_answer() -> None:
    """A wrong answer is followed by its sentence and its reason."""
    (line,) = naming_report.format_trial(naming()).splitlines()
    assert line.split()[:2] == ["right", "slow-source"]
    wrong = naming_report.format_trial(naming(right=False))
    assert "Source: waiting" in wrong
    assert "27 of 30 ms" in wrong


def busy(trial: Predicting) -> Predicting:
    """Return a trial during which other programs used half of the machine."""
    return replace(trial, busy_elsewhere_fraction=0.5)


def test_directions_are_counted_by_kind() -> None:
    """Each kind has its right directions; unclear and missing ones are counted apart."""
    right, wrong = predicting(0.020), predicting(0.040)
    unclear = replace(right, expected="unclear")
    tried = [predicting(came, "verified") for came in (0.020, 0.028)]
    trials = [right, busy(wrong), unclear, busy(predicting(None)), *tried]
    _, _, *rows = predicting_report.format_table(trials)
    assert rows == [
        "| workers | 4 | 2 | 50.0% (9 to 91) |  |",
        "| workers, others idle | 2 | 1 | 100.0% (21 to 100) |  |",
        "| verified | 2 | 0 | 100.0% (34 to 100) | 50.0% (9 to 91) |",
        "| verified, others idle | 2 | 0 | 100.0% (34 to 100) | 50.0% (9 to 91) |",
        "| all predictions | 4 | 2 | 50.0% (9 to 91) |  |",
        "| all predictions, others idle | 2 | 1 | 100.0% (21 to 100) |  |",
    ]


@pytest.mark.parametrize(("right", "wrong", "met"), [(9, 1, True), (8, 1, False), (0, 0, False)])
def test_nine_in_ten_directions_must_be_right(right: int, wrong: int, met: bool) -> None:
    """The goal holds at its limit, and trials without a direction show nothing."""
    trials = [predicting(0.024)] * right + [predicting(0.040)] * wrong + [predicting(None)] * 9
    assert predicting_report.meets_goal(trials) is met


def test_a_line_has_pipeline_direction_and_outcome() -> None:
    """A line is enough to understand a trial."""
    line = predicting_report.format_trial(predicting(0.024))
    assert "read waits 20 ms, decode computes 10 ms; workers 1, threads 0; 2 workers" in line
    assert line.endswith("workers faster, measured 1.25 times as fast: right")
    tried = predicting_report.format_trial(predicting(0.040, "verified"))
    assert tried.endswith(
        "verified faster (1.50 (1.42 to 1.58)), measured 0.75 times as fast: WRONG"
    )
    assert predicting_report.format_trial(predicting(None)).endswith("workers: it failed")


def test_a_line_has_the_storage_of_slow_reads() -> None:
    """The storage comes before the stages that take time."""
    trial = predicting(0.025)
    slow = replace(trial, pipeline=replace(trial.pipeline, storage="object-store,latency=20ms"))
    assert ": object-store,latency=20ms, read waits 20 ms" in predicting_report.format_trial(slow)
