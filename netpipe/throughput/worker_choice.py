"""Chooses the fewest workers that load as fast as any within a memory budget, and buffers."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import median
from typing import Annotated, Final, Literal, TypedDict

from netpipe.errors import InputError, SessionError
from netpipe.measuring.interleaving import MIN_ROUNDS, order_of_round
from netpipe.results.fields import Count, MayBeAbsent, Must, PositiveAmount, PositiveCount, Text
from netpipe.results.units import format_amount, format_count, format_megabytes
from netpipe.throughput.figures import Figure, Tally, over_rounds, ratio, speed_figure

MAX_ROUNDS: Final = 6

# A candidate with at least this fraction of another's speed counts as equally fast.
_AS_FAST: Final = 0.95

_OPTION: Final = "--memory-budget"
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?) ?([MG]i?B)")
_UNITS: Final = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}

Status = Literal["open", "chosen", "not needed", "slower", "over budget", "failed"]


@dataclass(frozen=True)
class Candidate:
    """A number of workers, and the runs with this number so far."""

    workers: int
    runs: tuple[Tally, ...] = ()
    status: Status = "open"
    reason: str = ""

    @property
    def figure(self) -> str:
        """The name of the speed figure."""
        return speed_figure(self.runs)

    @property
    def speed(self) -> float:
        """The median speed over the runs; there must be at least one."""
        return over_rounds(self.figure, self.runs).median

    @property
    def peak_pss_bytes(self) -> int:
        """The peak memory of all processes in any run; 0 without a run."""
        return max((run.peak_pss_bytes for run in self.runs), default=0)

    @property
    def label(self) -> str:
        """The number of workers as text: `1 worker`."""
        return format_count(self.workers, "worker")


class TriedCandidate(TypedDict):
    """A number of workers that was tried."""

    workers: Count
    #: The counts of each trial, in turns with other numbers; empty if dropped before the first.
    runs: list[Tally]
    #: "not needed": not clearly faster than the chosen number, which is smaller.
    fate: Literal["chosen", "not needed", "slower", "over budget", "failed"]
    reason: Text
    tokens_per_s: Figure | None  #: Null without a trial.
    #: Peak memory of all processes in any trial, shared pages counted once; null without a trial.
    peak_pss_bytes: PositiveCount | None


@dataclass(frozen=True)
class WorkerChoice:
    """The workers to use, and why."""

    #: The fewest worker processes that are not clearly slower than any other number.
    workers: Count
    #: Batches that each worker should have ready, within the memory budget.
    buffer: MayBeAbsent[PositiveCount]
    reason: Text  #: A sentence that compares the choice with its neighbours.
    memory_budget_bytes: PositiveCount  #: The most memory that all processes together may take.
    seconds: PositiveAmount  #: Requested duration of steady iteration in each trial.
    #: The numbers of workers that were tried, the fewest first.
    candidates: Annotated[tuple[Candidate, ...], list[TriedCandidate], Must(minItems=1)]


Measure = Callable[[int], Tally]
ReportProgress = Callable[[int, Candidate], None]


def parse_budget(text: str) -> int:
    """Return the bytes that a text such as `4GB` stands for; raise InputError if invalid or 0."""
    found = _AMOUNT.fullmatch(text.strip())
    budget_bytes = int(float(found[1]) * _UNITS[found[2]]) if found else 0
    if not budget_bytes:
        constraint = f"be a number above 0 and one of {', '.join(_UNITS)}, such as 4GB"
        raise InputError(_OPTION, "value", constraint, repr(text))
    return budget_bytes


def worker_counts(cores: int) -> list[int]:
    """Return the numbers of workers worth trying: powers of two, and the number of cores.

    0 is omitted: the training process would then load, but its other work is unknown.
    """
    return sorted({cores, *(1 << exponent for exponent in range(cores.bit_length()))})


def open_candidates(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the candidates that can still be chosen."""
    return [candidate for candidate in candidates if candidate.status == "open"]


def try_candidates(
    candidates: Sequence[Candidate],
    budget_bytes: int,
    measure: Measure,
    report_progress: ReportProgress,
) -> list[Candidate]:
    """Try the open candidates once a round, in alternating order; return all in the given order.

    The candidates come with the fewest workers first. After three rounds, slower ones are dropped,
    and rounds go on while they can change the choice. All open candidates have the same rounds.

    `measure` runs the loader once with a number of workers. Before each run, and when a candidate
    is dropped, `report_progress` is called with the number of the round, counted from 1, and the
    candidate.

    Raises:
        InputError: The budget is below the memory that the smallest candidate takes.
        SessionError: No candidate within the budget could be run; this is the last one's error.
    """
    tried = list(candidates)
    for number in range(1, MAX_ROUNDS + 1):
        tried = _try_round(tried, number, budget_bytes, measure, report_progress)
        _require_open(tried, budget_bytes)
        if number < MIN_ROUNDS:
            continue
        judged = drop_slower(tried)
        for before, after in zip(tried, judged, strict=True):
            if before != after:
                report_progress(number, after)
        tried = judged
        # More rounds can change the choice only if the fewest open workers have a lower median.
        rivals = open_candidates(tried)
        if not _has_lower_median(rivals[0], _fastest(rivals)):
            break
    return tried


def _try_round(
    candidates: Sequence[Candidate],
    number: int,
    budget_bytes: int,
    measure: Measure,
    report_progress: ReportProgress,
) -> list[Candidate]:
    tried = {candidate.workers: candidate for candidate in candidates}
    for candidate in order_of_round(open_candidates(candidates), number - 1):
        measured = [other for other in tried.values() if other.runs]
        excess = "" if candidate.runs else foresee_excess(candidate, measured, budget_bytes)
        if excess:
            after = replace(candidate, status="over budget", reason=excess)
        else:
            report_progress(number, candidate)
            after = _run(candidate, budget_bytes, measure)
        if after.status != "open":
            report_progress(number, after)
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
    """Return why an untried candidate will exceed the budget; "" if it is not known to do so.

    Memory is assumed to grow by the same amount with each worker. `measured` holds the smaller
    candidates that have runs, the fewest workers first.
    """
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


def _require_open(candidates: Sequence[Candidate], budget_bytes: int) -> None:
    if open_candidates(candidates):
        return
    failed = [candidate.reason for candidate in candidates if candidate.status == "failed"]
    if failed:
        raise SessionError(failed[-1])
    smallest_bytes = min(each.peak_pss_bytes for each in candidates if each.runs)
    smallest, budget = format_megabytes(smallest_bytes), format_megabytes(budget_bytes)
    constraint = f"be at least the {smallest} that the smallest candidate takes"
    raise InputError(_OPTION, "value", constraint, budget, "Give more, or take a smaller batch")


def drop_slower(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates; mark open ones that are clearly slower than any other open one.

    Their median is below 95% of the other's, and the 95% interval of the ratio within rounds lies
    below 1.
    """
    rivals = sorted(open_candidates(candidates), key=lambda rival: -rival.speed)
    judged = []
    for candidate in candidates:
        faster = (rival for rival in rivals if _is_clearly_slower(candidate, rival))
        if candidate.status == "open" and (first := next(faster, None)):
            reason = f"clearly slower than {first.label}"
            candidate = replace(candidate, status="slower", reason=reason)
        judged.append(candidate)
    return judged


def _is_clearly_slower(candidate: Candidate, rival: Candidate) -> bool:
    if not _has_lower_median(candidate, rival):
        return False
    relative = ratio(rival.figure, candidate.runs, rival.runs)
    return relative is not None and relative.high < 1


def _fastest(candidates: Sequence[Candidate]) -> Candidate:
    return max(candidates, key=lambda candidate: candidate.speed)


def _has_lower_median(candidate: Candidate, other: Candidate) -> bool:
    return candidate.speed < _AS_FAST * other.speed


def choose(
    candidates: Sequence[Candidate], memory_budget_bytes: int, seconds: float
) -> WorkerChoice:
    """Choose the fewest workers that are not clearly slower, from the result of `try_candidates`.

    The reason compares the chosen candidate with its neighbours and with the fastest one above it.
    """
    judged = drop_slower(candidates)
    chosen = open_candidates(judged)[0]
    fewer = [candidate for candidate in judged if candidate.workers < chosen.workers]
    more = [candidate for candidate in judged if candidate.workers > chosen.workers]
    rivals = open_candidates(more[1:])
    others = more[:1] + ([_fastest(rivals)] if rivals else []) + fewer[-1:]
    sentence = (
        f"{chosen.label}: {format_amount(chosen.speed)} {chosen.figure.replace('_per_', '/')}"
    )
    reason = "; ".join([sentence, *(_compare(other, chosen) for other in others)]) + "."
    unneeded = f"not clearly faster than {chosen.label}"
    for index, candidate in enumerate(judged):
        if candidate is chosen:
            judged[index] = replace(candidate, status="chosen", reason=reason)
        elif candidate.status == "open":
            judged[index] = replace(candidate, status="not needed", reason=unneeded)
    buffer, why = _choose_buffer(chosen, memory_budget_bytes)
    return WorkerChoice(
        chosen.workers, buffer, f"{reason} {why}", memory_budget_bytes, seconds, tuple(judged)
    )


def _choose_buffer(chosen: Candidate, memory_budget_bytes: int) -> tuple[int, str]:
    """Return the buffer per worker that hides pauses within the memory budget, and the reason."""
    workers, runs = max(1, chosen.workers), chosen.runs
    behind = median(run.behind_batches for run in runs)
    wanted = ceil(behind / workers)
    spare_bytes = memory_budget_bytes - chosen.peak_pss_bytes
    affordable = 1 + max(0, spare_bytes) // max(1, workers * runs[0].batch_bytes)
    hidden = f"It falls up to {behind:.1f} batches behind its mean pace; "
    hidden += f"buffers of {wanted} in each worker hide that"
    if wanted <= affordable:
        return wanted, f"{hidden}."
    return affordable, f"{hidden}, of which the memory budget allows {affordable}."


def _compare(other: Candidate, chosen: Candidate) -> str:
    if other.status in ("over budget", "failed"):
        return f"{other.workers} left out: {other.reason.splitlines()[0].rstrip(':')}"
    verb = "gives" if other.workers == 1 else "give"
    gain = other.speed / chosen.speed - 1
    more = f"{abs(gain):.0%} {'more' if gain >= 0 else 'less'}"
    if _has_lower_median(chosen, other):
        more += ", but not in every round"
    text = f"{other.workers} {verb} {format_amount(other.speed)} ({more})"
    extra_bytes = other.peak_pss_bytes - chosen.peak_pss_bytes
    if other.workers > chosen.workers and extra_bytes > 0:
        text += f" for {format_megabytes(extra_bytes)} more"
    return text
