"""The answers of netpipe's other checks about a change: resuming, speed, memory and start. Pure."""

import re
from collections.abc import Callable, Sequence
from typing import Final

from netpipe.errors import HarnessError, MisuseError
from netpipe.gate.outcomes import NO_WORSE, UNJUDGED, Comparison, Outcome
from netpipe.judge.judgement import NOT_COMPARED, Check, Question
from netpipe.results.units import format_seconds
from netpipe.resuming.checking import ResumeReport

METRICS: Final[dict[Question, Sequence[str]]] = {
    "faster": ("load_cpu_ratio", "load_s_per_batch"),
    "memory": ("peak_pss_bytes", "growth_bytes_per_batch"),
    "start": ("first_batch_s",),
}
"""The metrics of loading, timed side by side, that answer each question."""


def check_resumes(now: Callable[[], ResumeReport], then: Callable[[], ResumeReport]) -> Check:
    """Say whether this version resumes exactly, or else no worse than the base."""
    found = _call(now)
    if isinstance(found, ResumeReport):
        if found.undecided:
            return Check("resumes", NOT_COMPARED, found.undecided)
        if not found.differs:
            return Check("resumes", "EXACT", _describe_restarts(found))
        before = _call(then)
        known = _list_differing(before) if isinstance(before, ResumeReport) else set()
        reason = next(str(state) for state in found.restored if state.difference)
        is_as_before = _list_differing(found) <= known
    elif isinstance(found, MisuseError):  # The loader has no states that can be restored.
        reason, is_as_before = str(found), isinstance(_call(then), MisuseError)
    else:
        return Check("resumes", NOT_COMPARED, str(found))
    return Check("resumes", "AS_BEFORE" if is_as_before else "DIFFERS", reason)


def _describe_restarts(report: ResumeReport) -> str:
    """Say how long the first batch took after a restore, early and late in the run.

    A loader that resumes by skipping batches takes longer at a later state.
    """
    timed = [(state.offset, state.first_batch_s) for state in report.restored]
    found = [
        f"{format_seconds(took_s)} at batch {at}" for at, took_s in timed if took_s is not None
    ]
    reason = f"from {len(timed)} states"
    return f"{reason}; first batch after {found[0]}, {found[-1]}" if found else reason


def _call(resume: Callable[[], ResumeReport]) -> ResumeReport | HarnessError:
    try:
        return resume()
    except HarnessError as error:
        return error


def _list_differing(report: ResumeReport) -> set[tuple[object, ...]]:
    """Return the place of each difference, and its kind, such as "skipped:"."""
    states = (state for state in report.restored if state.difference)
    return {
        (state.offset, state.workers, state.restores, re.split("[:,]", state.difference)[0])
        for state in states
    }


def check_speed(
    work: Sequence[Comparison], timed: Sequence[Comparison], *, claims_faster: bool
) -> list[Check]:
    """Say whether loading became slower, takes more memory, or starts later.

    `timed` compares the metrics side by side. If it is empty, only counts of work are judged: more
    work decides nothing, and less work proves no claim.
    """
    checks = list[Check]()
    changed = [each.reason for each in work if each.outcome is not Outcome.PASS]
    for question, names in METRICS.items():
        compared = [each for each in timed if each.metric in names]
        reasons = [each.reason for each in compared]
        if question == "faster":
            compared = compared if timed or claims_faster else [*work]
            reasons += changed or ["no kind of work has changed"]
        if not compared:
            checks.append(Check(question, NOT_COMPARED, "not timed"))
            continue
        found = Comparison.from_metrics(compared)
        outcome = str(found.outcome)
        is_faster = question == "faster" and found.outcome is Outcome.IMPROVED
        if found.outcome in NO_WORSE and not is_faster:
            # Memory passes only if its growth was judged too, not only its peak.
            is_whole = not any(each.outcome in UNJUDGED for each in compared)
            outcome = outcome if is_whole else NOT_COMPARED
        if not timed and found.outcome is Outcome.REGRESSED:
            outcome, reasons = "INCONCLUSIVE", ["only times decide about more work", *reasons]
        if question == "faster" and claims_faster and found.outcome is Outcome.PASS:
            outcome, reasons = "NOT_FASTER", ["the claim is not proven", *reasons]
        checks.append(Check(question, outcome, "; ".join(reasons), worse_ratio=found.worse_ratio))
    return checks
