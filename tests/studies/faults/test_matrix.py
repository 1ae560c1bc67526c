"""Counts of trials that are right, blamed or left open."""

import pytest

from perf_tests.studies.faults.matrix import BLAMING, Result, build_confusion, classify, count_rates
from perf_tests.studies.faults.trials import Trial
from tests.studies.faults.trials_made import control, fault

MASKED = ("loader-bound", "masked-loader-bound")


@pytest.mark.parametrize(
    ("trial", "shows"),
    [
        (fault(), Result.RIGHT),
        (fault("masked-loader-bound", kinds=MASKED), Result.RIGHT),
        (fault("jitter"), Result.WRONG),
        (fault("error"), Result.WRONG),
        (fault("healthy"), Result.MISSED),
        (fault("at-risk"), Result.MISSED),
        (fault("at-risk", kinds=("at-risk",)), Result.RIGHT),
        (fault("inconclusive"), Result.OPEN),
        (fault("healthy", kinds=(), finding="donation-missing"), Result.MISSED),
        (control(), Result.RIGHT),
        (control("contention", kinds=("healthy", "contention")), Result.RIGHT),
        (control("at-risk"), Result.BLAMED),
        (control("inconclusive"), Result.OPEN),
    ],
)
def test_a_verdict_is_right_or_not(trial: Trial, shows: Result) -> None:
    """A fault needs its own name, a control needs none, and an open question is neither."""
    assert classify(trial) is shows


@pytest.mark.parametrize("called", ["healthy", "inconclusive", "contention"])
def test_a_finding_names_a_fault_under_any_verdict(called: str) -> None:
    """A fault without a stall is named by its finding."""
    found = fault(called, kinds=(), finding="donation-missing", findings={"donation-missing": ""})
    assert classify(found) is Result.RIGHT


def test_a_finding_must_name_the_process_at_fault() -> None:
    """The right finding about another process is a wrong name."""
    growing = {"kinds": (), "finding": "memory-grows", "names": "worker 2"}
    right, wrong = {"memory-grows": "in worker 2 (pid 7)"}, {"memory-grows": "in worker 1 (pid 6)"}
    assert classify(fault("healthy", findings=right, **growing)) is Result.RIGHT
    assert classify(fault("healthy", findings=wrong, **growing)) is Result.WRONG
    assert classify(fault("healthy", **growing)) is Result.MISSED


@pytest.mark.parametrize("blaming", BLAMING)
def test_a_finding_of_a_fault_blames_a_control(blaming: str) -> None:
    """A control that is called healthy is blamed by such a finding, and by no other."""
    assert classify(control(findings={blaming: ""})) is Result.BLAMED
    assert classify(control(findings={"busy-host": ""})) is Result.RIGHT


def test_rates_leave_open_questions_out_of_the_names() -> None:
    """Inconclusive trials do not count as wrong names."""
    trials = [*[fault()] * 3, fault("jitter"), fault("inconclusive"), control(), control("jitter")]
    counted = count_rates(trials)
    assert (counted.faults, counted.controls) == (5, 2)
    assert counted.named_fraction == 3 / 4
    assert counted.inconclusive_fraction == 1 / 7
    assert (counted.missed, counted.blamed) == (0, 1)


def test_goals_hold_at_their_limits() -> None:
    """One fault in twenty may bear a wrong name and one trial in ten may be left open."""
    assert count_rates([*[fault()] * 19, fault("jitter")]).meets_goals
    assert not count_rates([*[fault()] * 18, fault("jitter")]).meets_goals
    assert count_rates([*[fault()] * 9, control("inconclusive")]).meets_goals
    assert not count_rates([*[fault()] * 8, control("inconclusive")]).meets_goals


@pytest.mark.parametrize("worst", [fault("healthy"), control("at-risk")])
def test_one_miss_and_one_blame_are_too_many(worst: Trial) -> None:
    """No number of right answers makes up for a fault called healthy or a control blamed."""
    assert not count_rates([*[fault()] * 99, worst]).meets_goals


def test_the_matrix_has_a_row_for_each_name_expected() -> None:
    """Rows are expected names, columns given names, in the same order."""
    sync = {"expected": "forced-sync", "kinds": ("forced-sync",)}
    trials = [fault(), fault(), fault("error"), fault("forced-sync", **sync), control()]
    assert build_confusion(trials) == [
        ["expected", "loader-bound", "forced-sync", "healthy", "error"],
        ["loader-bound", "2", "", "", "1"],
        ["forced-sync", "", "1", "", ""],
        ["healthy", "", "", "1", ""],
    ]
