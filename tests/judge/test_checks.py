"""The answers about resuming, speed, memory and the start."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from netpipe.errors import MisuseError, NetpipeError, SessionError
from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.judge.checks import METRICS, check_resumes, check_speed
from netpipe.judge.judgement import Check
from netpipe.resuming.checking import Restored, ResumeReport

EXACT = ResumeReport(8, True, "", [Restored(4, None, "", 30, 0.0, 0.1)])
SKIPPED = "skipped: batch 5 came in place of batch 4"
WRONG = ResumeReport(8, True, "", [Restored(4, None, SKIPPED, 30, 0.0, 0.1)])
WRONG_LATER = ResumeReport(8, True, "", [Restored(6, None, SKIPPED, 30, 0.0, 0.1)])
ENDS_EARLY = ResumeReport(8, True, "", [Restored(4, None, "ended early, at batch 4", 30, 0, 0.1)])
ENDS_LATE = ResumeReport(8, True, "", [Restored(4, None, "ended late, at batch 4", 30, 0, 0.1)])
UNDECIDED = ResumeReport(8, True, "it gives other batches each time")
NO_STATE, CRASH = MisuseError("the loader must have get_state"), SessionError("it crashed")


def give(result: ResumeReport | NetpipeError | None) -> Callable[[], ResumeReport]:
    """Return a check of a version that has this result; None if it must not be made."""

    def check() -> ResumeReport:
        if isinstance(result, NetpipeError):
            raise result
        assert result is not None
        return result

    return check


@pytest.mark.parametrize(
    ("now", "then", "outcome", "status"),
    [
        (EXACT, None, "EXACT", "fine"),
        (WRONG, EXACT, "DIFFERS", "worse"),
        (WRONG, WRONG, "AS_BEFORE", "fine"),
        (WRONG, WRONG_LATER, "DIFFERS", "worse"),
        (WRONG, ENDS_EARLY, "DIFFERS", "worse"),
        (ENDS_EARLY, ENDS_LATE, "DIFFERS", "worse"),
        (WRONG, CRASH, "DIFFERS", "worse"),
        (UNDECIDED, None, "NOT_COMPARED", "open"),
        (NO_STATE, NO_STATE, "AS_BEFORE", "fine"),
        (NO_STATE, EXACT, "DIFFERS", "worse"),
        (NO_STATE, CRASH, "DIFFERS", "worse"),
        (CRASH, None, "NOT_COMPARED", "open"),
    ],
)
def test_a_loader_must_resume_no_worse_than_before(
    now: Any, then: Any, outcome: str, status: str
) -> None:
    """The base is checked only if this version does not resume exactly."""
    found = check_resumes(give(now), give(then))
    assert (found.outcome, found.status) == (outcome, status)


def test_an_exact_resume_says_how_long_it_takes() -> None:
    """A loader that skips batches takes longer to its first batch after a later state."""
    states = [Restored(at, None, "", 30, 0.0, 0.1 * (1 + at)) for at in (0, 9)]
    reason = check_resumes(give(replace(EXACT, restored=states)), give(None)).reason
    assert reason == "from 2 states; first batch after 100 ms at batch 0, 1 s at batch 9"


def test_a_wrong_resume_is_described() -> None:
    """The reason has the state and the first batch that differs."""
    assert SKIPPED in check_resumes(give(WRONG), give(EXACT)).reason


def compared(**outcomes: Outcome) -> list[Comparison]:
    """Return comparisons of metrics or kinds of work with these outcomes."""
    return [Comparison(each, name, 1.0, 1.0, f"{name} {each}") for name, each in outcomes.items()]


def timed(**changed: Outcome) -> Comparison:
    """Return a comparison of load times, in which all other metrics pass."""
    names = [name for names in METRICS.values() for name in names]
    return Comparison.from_metrics(compared(**{**dict.fromkeys(names, Outcome.PASS), **changed}))


def outcomes(checks: list[Check]) -> list[str]:
    """Return the outcomes about the speed, the memory and the start."""
    assert [check.question for check in checks] == ["faster", "memory", "start"]
    return [check.outcome for check in checks]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, ["PASS", "PASS", "PASS"]),
        ({"load_s_per_batch": Outcome.IMPROVED}, ["IMPROVED", "PASS", "PASS"]),
        ({"load_cpu_ratio": Outcome.REGRESSED}, ["REGRESSED", "PASS", "PASS"]),
        ({"load_cpu_ratio": Outcome.INCONCLUSIVE}, ["INCONCLUSIVE", "PASS", "PASS"]),
        ({"peak_pss_bytes": Outcome.REGRESSED}, ["PASS", "REGRESSED", "PASS"]),
        ({"growth_bytes_per_batch": Outcome.NOT_COMPARED}, ["PASS", "NOT_COMPARED", "PASS"]),
        ({"first_batch_s": Outcome.REGRESSED}, ["PASS", "PASS", "REGRESSED"]),
        ({"first_batch_s": Outcome.NOT_COMPARED}, ["PASS", "PASS", "NOT_COMPARED"]),
    ],
)
def test_times_answer_three_questions(changed: dict[str, Outcome], expected: list[str]) -> None:
    """Each metric of loading counts for one question."""
    work = compared(calls=Outcome.PASS)
    assert outcomes(check_speed(work, timed(**changed).metrics, claims_faster=False)) == expected


@pytest.mark.parametrize(
    ("found", "outcome", "status"),
    [
        (Outcome.IMPROVED, "IMPROVED", "fine"),
        (Outcome.PASS, "NOT_FASTER", "worse"),
        (Outcome.INCONCLUSIVE, "INCONCLUSIVE", "open"),
        (Outcome.REGRESSED, "REGRESSED", "worse"),
    ],
)
def test_a_claim_must_be_proven(found: Outcome, outcome: str, status: str) -> None:
    """Less work is not a proof of speed."""
    work = compared(calls=Outcome.IMPROVED)
    faster, *_ = check_speed(work, timed(load_cpu_ratio=found).metrics, claims_faster=True)
    assert (faster.outcome, faster.status) == (outcome, status)


@pytest.mark.parametrize("found", [[], compared(peak_pss_bytes=Outcome.PASS)])
def test_less_work_proves_no_claim(found: list[Comparison]) -> None:
    """Without a time of loading, a claim stays open."""
    work = compared(calls=Outcome.IMPROVED)
    faster, *_ = check_speed(work, found, claims_faster=True)
    assert (faster.outcome, faster.status) == ("NOT_COMPARED", "open")


def test_less_work_does_not_stand_for_times() -> None:
    """If only other metrics were timed, the speed was not compared."""
    work, found = compared(calls=Outcome.PASS), compared(peak_pss_bytes=Outcome.PASS)
    assert outcomes(check_speed(work, found, claims_faster=False))[0] == "NOT_COMPARED"


def test_times_decide_about_more_work() -> None:
    """More calls that take no more time pass; the reason names the work."""
    work = compared(calls=Outcome.REGRESSED, allocations=Outcome.PASS)
    faster, *_ = check_speed(work, timed().metrics, claims_faster=False)
    assert faster.outcome == "PASS"
    assert "calls REGRESSED" in faster.reason
    assert "allocations" not in faster.reason


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (Outcome.PASS, "PASS"),
        (Outcome.REGRESSED, "INCONCLUSIVE"),
        (Outcome.NOT_COMPARED, "NOT_COMPARED"),
    ],
)
def test_without_times_only_work_is_judged(found: Outcome, expected: str) -> None:
    """More work may take no longer, so it stays open, as do memory and the start."""
    checks = check_speed(compared(calls=found), (), claims_faster=False)
    assert outcomes(checks) == [expected, "NOT_COMPARED", "NOT_COMPARED"]
    assert checks[1].reason == "not timed"
