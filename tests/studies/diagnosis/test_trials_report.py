"""Tables and goals of trials that were never made."""

from dataclasses import replace

import pytest

from perf_tests.studies.diagnosis import naming_report, predicting_report
from perf_tests.studies.diagnosis.predicting import Predicting
from tests.studies.diagnosis.trials_of_diagnosis import naming, predicting


def test_a_row_tells_all_that_was_said_of_a_case() -> None:
    """Answers are listed once each, with how many trials were right; rates follow."""
    trials = [naming(), naming(seed=2), naming(right=False, seed=3), naming(case="slow-thread")]
    lines = list(naming_report.table(trials))
    assert lines[2] == (
        "| slow-source | Source: waiting | Source: waiting; Map of Transform: waiting | 2 of 3 |"
    )
    assert lines[3].endswith("| 1 of 1 |")
    assert "- stage and resource: 3 of 4, 75.0% (30 to 95)" in lines
    assert any(line.startswith("- resource: 4 of 4, 100.0%") for line in lines)


def test_nine_in_ten_must_be_named() -> None:
    """The goal holds at its limit, and no trials show nothing."""
    assert naming_report.meets_goal([naming()] * 9 + [naming(right=False)])
    assert not naming_report.meets_goal([naming()] * 8 + [naming(right=False)])
    assert not naming_report.meets_goal([])


def test_a_line_explains_what_is_wrong() -> None:
    """What was said first and why is told where it is not right, and only there."""
    assert naming_report.line(naming()).splitlines() == [
        "right  slow-source                  Source: waiting (20 s)"
    ]
    wrong = naming_report.line(naming(right=False))
    assert "must be Source: waiting" in wrong
    assert "it takes 27 of 30 ms" in wrong


def busy(trial: Predicting) -> Predicting:
    """Let other programs have taken much of the machine."""
    return replace(trial, busy_elsewhere_fraction=0.5)


def test_predictions_are_counted_by_kind() -> None:
    """Each kind has its share within 20% and its errors; one that is missing is far off."""
    trials = [predicting(0.020), predicting(0.040), predicting(0.024, "without-stage")]
    _, _, workers, without, both, calm = predicting_report.table(trials)
    assert workers == "| workers | 2 | 50.0% (9 to 91) | 25% | 50% | 50.0% (9 to 91) |"
    assert without.startswith("| without-stage | 1 | 100.0%")
    assert both.startswith("| all | 3 | 66.7%")
    assert calm.startswith("| all, others idle | 3 |")
    (*_, row) = predicting_report.table([busy(predicting(None))])
    assert row.startswith("| all | 1 | 0.0% (0 to 79) | none predicted | none predicted |")


@pytest.mark.parametrize(("close", "far", "met"), [(8, 2, True), (7, 2, False), (0, 0, False)])
def test_four_in_five_must_be_close(close: int, far: int, met: bool) -> None:
    """The goal holds at its limit, and no trials show nothing."""
    trials = [predicting(0.024)] * close + [predicting(None)] * far
    assert predicting_report.meets_goal(trials) is met


def test_a_line_tells_pipeline_prediction_and_outcome() -> None:
    """Nothing else is needed to understand a trial."""
    line = predicting_report.line(predicting(0.025))
    assert "read waits 20 ms, decode computes 10 ms; workers 1, threads 0; 2 workers" in line
    assert line.endswith("30.0 ms, predicted 20.0 ms, came 25.0 ms: off by 20%")
    assert predicting_report.line(predicting(None)).endswith("workers: it failed")
