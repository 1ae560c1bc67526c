"""Short runs of a loader with every number of workers in turns, within a memory budget."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from netpipe.errors import InputError, SessionError
from netpipe.measuring.interleaving import MIN_ROUNDS, order_of_round
from netpipe.results.units import format_megabytes
from netpipe.throughput.figures import Tally
from netpipe.throughput.worker_choice import (
    Candidate,
    drop_hopeless,
    drop_slower,
    is_decided,
    open_candidates,
)

MAX_ROUNDS: Final = 6

_OPTION: Final = "--memory-budget"
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?) ?([MG]i?B)")
_UNITS: Final = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}

Measure = Callable[[int], Tally]
Say = Callable[[int, Candidate], None]


def parse_budget(text: str) -> int:
    """Return the bytes that a number and its unit stand for: `4GB`.

    Raises:
        InputError: The text is something else, or 0.
    """
    found = _AMOUNT.fullmatch(text.strip())
    budget_bytes = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if not budget_bytes:
        constraint = f"be a number above 0 and one of {', '.join(_UNITS)}, such as 4GB"
        raise InputError(_OPTION, "value", constraint, repr(text))
    return budget_bytes


def try_candidates(
    candidates: Sequence[Candidate], budget_bytes: int, measure: Measure, say: Say
) -> list[Candidate]:
    """Try every candidate once a round.

    After three rounds only candidates that may still be chosen go on, and only while the rounds
    differ too much to decide.

    Args:
        candidates: Untried, the fewest workers first.
        budget_bytes: What all processes together may take.
        measure: Runs the loader once with a number of workers.
        say: Called before each run with the number of the round, from 1 on, and the candidate, and
            again with each candidate that is left out.

    Returns:
        The candidates in their order. At least one is open, and all open ones have the same rounds.

    Raises:
        InputError: The budget is below the smallest candidate.
        SessionError: No candidate within the budget could be run; the last one's error.
        MisuseError: The data are not what they must be.
    """
    every = list(candidates)
    for number in range(1, MAX_ROUNDS + 1):
        every = _try_round(every, number, budget_bytes, measure, say)
        _require_open(every, budget_bytes)
        judged = drop_hopeless(every) if number < MIN_ROUNDS else drop_slower(every)
        for before, after in zip(every, judged, strict=True):
            if before != after:
                say(number, after)
        every = judged
        if number >= MIN_ROUNDS and is_decided(every):
            break
    return every


def _try_round(
    every: Sequence[Candidate], number: int, budget_bytes: int, measure: Measure, say: Say
) -> list[Candidate]:
    tried = {candidate.workers: candidate for candidate in every}
    for candidate in order_of_round(open_candidates(every), number - 1):
        measured = [other for other in tried.values() if other.runs]
        excess = "" if candidate.runs else foresee_excess(candidate, measured, budget_bytes)
        if excess:
            after = replace(candidate, status="over budget", reason=excess)
        else:
            say(number, candidate)
            after = _run(candidate, budget_bytes, measure)
        if after.status != "open":
            say(number, after)
        tried[candidate.workers] = after
    return list(tried.values())


def _run(candidate: Candidate, budget_bytes: int, measure: Measure) -> Candidate:
    try:
        run = measure(candidate.workers)
    except SessionError as error:
        return replace(candidate, status="failed", reason=str(error))
    longer = replace(candidate, runs=(*candidate.runs, run))
    if longer.peak_pss_bytes <= budget_bytes:
        return longer
    reason = _above(f"took {format_megabytes(longer.peak_pss_bytes)}", budget_bytes)
    return replace(longer, status="over budget", reason=reason)


def foresee_excess(candidate: Candidate, measured: Sequence[Candidate], budget_bytes: int) -> str:
    """Return why an untried candidate is above the budget; empty if it is not known to be.

    Its finished batches are known. What its processes need besides, for imports and open files,
    follows from two smaller candidates: memory grows by the same amount with each worker.

    Args:
        candidate: The candidate to judge.
        measured: Smaller ones that were tried, the fewest workers first.
        budget_bytes: What all processes together may take.
    """
    if candidate.finished_bytes > budget_bytes:
        return _above(
            f"{format_megabytes(candidate.finished_bytes)} of finished batches", budget_bytes
        )
    if len(measured) < 2:
        return ""
    fewer, more = measured[-2:]
    growth = max(0, more.peak_pss_bytes - fewer.peak_pss_bytes) / (more.workers - fewer.workers)
    expected = round(more.peak_pss_bytes + growth * (candidate.workers - more.workers))
    if expected <= budget_bytes:
        return ""
    smaller = f"{fewer.workers} and {more.workers}"
    return _above(f"would take {format_megabytes(expected)}, going by {smaller}", budget_bytes)


def _above(needed: str, budget_bytes: int) -> str:
    return f"{needed}, above the budget of {format_megabytes(budget_bytes)}"


def _require_open(every: Sequence[Candidate], budget_bytes: int) -> None:
    if open_candidates(every):
        return
    failed = [candidate.reason for candidate in every if candidate.status == "failed"]
    if failed:
        raise SessionError(failed[-1])
    smallest_bytes = min(
        (candidate.peak_pss_bytes for candidate in every if candidate.runs),
        default=min(candidate.finished_bytes for candidate in every),
    )
    raise InputError(
        _OPTION,
        "value",
        f"be at least the {format_megabytes(smallest_bytes)} that the least candidate takes",
        format_megabytes(budget_bytes),
        "Give more, or take a smaller batch",
    )
