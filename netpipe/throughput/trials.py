"""Short runs of every number of workers in turns, until the choice among them is clear."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from netpipe.errors import InputError, SessionError
from netpipe.throughput.budget import OPTION, too_much_before, too_much_measured
from netpipe.throughput.candidates import Candidate, still_open
from netpipe.throughput.choice import is_decided, without_hopeless, without_slower
from netpipe.throughput.figures import Tally
from netpipe.throughput.formatting import megabytes

ROUNDS: Final = 3  # the fewest that bound a ratio
MOST_ROUNDS: Final = 6

Measure = Callable[[int], Tally]
Say = Callable[[int, Candidate], None]


def tried(
    candidates: Sequence[Candidate], budget_bytes: int, measure: Measure, say: Say
) -> list[Candidate]:
    """Try every candidate once a round.

    After three rounds it goes on only with what may still be chosen, and only while the rounds
    differ too much to tell.

    Args:
        candidates: None tried yet, the fewest workers first.
        budget_bytes: What all processes together may take.
        measure: Runs so many workers once.
        say: Is told, before each run, the number of the round, from 1 on, and what comes; and after
            it what has been left out.

    Returns:
        The candidates in their order; one at least is open, and all that are have the same rounds.

    Raises:
        InputError: The budget is below the least candidate.
        SessionError: No candidate that the budget allows could be run; the last one's error.
        MisuseError: The data are not what they must be.
    """
    every = list(candidates)
    for number in range(1, MOST_ROUNDS + 1):
        every = _one_round(every, number, budget_bytes, measure, say)
        _require_open(every, budget_bytes)
        judged = without_hopeless(every) if number < ROUNDS else without_slower(every)
        for before, after in zip(every, judged, strict=True):
            if before != after:
                say(number, after)
        every = judged
        if number >= ROUNDS and is_decided(every):
            break
    return every


def _one_round(
    every: Sequence[Candidate], number: int, budget_bytes: int, measure: Measure, say: Say
) -> list[Candidate]:
    done: list[Candidate] = []
    for one in every:
        after = one
        if one.fate == "open":
            after = _foreseen(one, done, budget_bytes)
            if after.fate == "open":
                say(number, after)
                after = _run(after, budget_bytes, measure)
            if after.fate != "open":
                say(number, after)
        done.append(after)
    return done


def _foreseen(one: Candidate, smaller: Sequence[Candidate], budget_bytes: int) -> Candidate:
    if one.runs:
        return one
    measured = [before for before in smaller if before.runs]
    return _held_to(one, too_much_before(one, measured, budget_bytes))


def _run(one: Candidate, budget_bytes: int, measure: Measure) -> Candidate:
    try:
        run = measure(one.workers)
    except SessionError as error:
        return replace(one, fate="failed", reason=str(error))
    grown = replace(one, runs=(*one.runs, run))
    return _held_to(grown, too_much_measured(grown, budget_bytes))


def _held_to(one: Candidate, too_much: str) -> Candidate:
    return replace(one, fate="over budget", reason=too_much) if too_much else one


def _require_open(every: Sequence[Candidate], budget_bytes: int) -> None:
    """Raise an error where no candidate is left.

    Raises:
        InputError: The budget is below the least candidate.
        SessionError: One that the budget allows failed.
    """
    if still_open(every):
        return
    failed = [one.reason for one in every if one.fate == "failed"]
    if failed:
        raise SessionError(failed[-1])
    least = min(
        (one.peak_pss_bytes for one in every if one.runs),
        default=min(one.finished_bytes for one in every),
    )
    raise InputError(
        OPTION,
        "value",
        f"be at least the {megabytes(least)} that the least candidate takes",
        megabytes(budget_bytes),
        "Give more, or take a smaller batch",
    )
