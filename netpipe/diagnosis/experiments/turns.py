"""Measures blocks of several sides in turns within a time slot, and computes their statistics."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from math import exp, inf, log, sqrt
from statistics import fmean, median, stdev
from typing import Final

from netpipe.clock import Clock
from netpipe.diagnosis.experiments.pulling_threads import Block
from netpipe.errors import LoaderFailedError, SessionError
from netpipe.gate.comparison import student_quantile
from netpipe.jobs.bounded_calls import call_within, summarize_error
from netpipe.jobs.heartbeat import Watch
from netpipe.measuring.interleaving import MIN_ROUNDS as MIN_ROUNDS
from netpipe.measuring.interleaving import Interleaved, interleave
from netpipe.results.measurement import Interval

NO_TIME: Final = "no time was left"
"""The reason given for a part that was skipped."""

_EXTRA_S: Final = 20.0
_MAX_ROUNDS: Final = 9
# A block that begins shortly before the deadline may still take this long.
_MIN_LIMIT_S: Final = 5.0

MeasureSide = Callable[[], Block]


class Side(StrEnum):
    """The single-thread run and its variants, then the unmodified loader and its variants."""

    SINGLE_THREAD = "single-thread"
    TWO_THREADS = "two-threads"
    TWO_PROCESSES = "two-processes"
    WITHOUT_STAGE = "without-stage"
    UNMODIFIED = "unmodified"
    ONE_WORKER = "one-worker"
    TINY_PAYLOAD = "tiny-payload"


def max_duration_s(budget_s: float) -> float:
    """Return the seconds from the loader's first batches until a diagnosis must end.

    Starting workers and the minimum number of rounds may take longer than the budget.
    """
    return 2 * budget_s + _EXTRA_S


@dataclass(frozen=True)
class TimeSlot:
    """The time for part of a diagnosis, which should take `budget_s` and must end by `until_s`."""

    clock: Clock
    budget_s: float
    until_s: float

    def remaining_s(self) -> float:
        """Return the seconds until the part must end, at least 0."""
        return max(0.0, self.until_s - self.clock())

    def require(self, cost_s: float) -> None:
        """Raise a SessionError with `NO_TIME` if `cost_s` exceeds the time left."""
        if cost_s > self.remaining_s():
            raise SessionError(NO_TIME)


@dataclass(frozen=True)
class Schedule:
    """Assigns a time slot to each part of a diagnosis, counted from the loader's first batches."""

    clock: Clock
    budget_s: float
    watch: Watch
    started_s: float

    def slot(self, budget_fraction: float, end_fraction: float = 1.0) -> TimeSlot:
        """Return the time slot of a part, which ends at a fraction of `max_duration_s`."""
        until_s = self.started_s + end_fraction * max_duration_s(self.budget_s)
        return TimeSlot(self.clock, budget_fraction * self.budget_s, until_s)

    def progress(self, part: str) -> Callable[[int], None]:
        """Return a function that reports the number of each round of a part."""
        return lambda number: self.watch.enter_phase(part, self.budget_s, f"round {number}")


@dataclass(frozen=True)
class SideBlocks:
    """One block of each side per round, and why the missing sides failed."""

    blocks: Mapping[str, Sequence[Block]] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)

    def has(self, *sides: str) -> bool:
        """Whether all of these sides were measured."""
        return all(side in self.blocks for side in sides)

    def why_missing(self, *sides: str) -> str:
        """Return why the first failed side of `sides` was not measured, or `NO_TIME`."""
        return next((self.failures[side] for side in sides if side in self.failures), NO_TIME)

    def s_per_batch(self, side: str) -> tuple[float, ...]:
        """Return a side's seconds per batch, one value per round."""
        return tuple(block.s_per_batch for block in self.blocks[side])

    def interval(self, side: str) -> Interval:
        """Return the interval of a side's seconds per batch."""
        return log_interval(self.s_per_batch(side))

    def cpu_interval(self, side: str) -> Interval:
        """Return the interval of a side's CPU seconds per batch, over all processes."""
        return log_interval([block.cpu_s_per_batch for block in self.blocks[side]])

    def speedup(self, side: str, over: str) -> Interval:
        """Return the interval of a side's batches per second over those of another side."""
        pairs = zip(self.s_per_batch(over), self.s_per_batch(side), strict=True)
        return log_interval([before / after for before, after in pairs])


def log_interval(values: Sequence[float]) -> Interval:
    """Return the median with Student's 95% interval of the mean of the logarithms.

    Times and their ratios vary by factors. There are too few rounds for an interval with two of
    the values as bounds.
    """
    n, middle = len(values), median(values)
    if n == 1:
        return Interval(middle, 0.0, inf, 1)
    logs = [log(value) for value in values]
    reach = student_quantile(0.975, n - 1) * stdev(logs) / sqrt(n)
    low, high = exp(fmean(logs) - reach), exp(fmean(logs) + reach)
    return Interval(middle, min(low, middle), max(high, middle), n)


def divide(seconds: float, by: Interval) -> Interval:
    """Return a duration divided by an interval; the result is unbounded if the divisor may be 0."""
    low = seconds / by.high if by.high else 0.0
    high = seconds / by.low if by.low else inf
    return Interval(seconds / by.median, low, high, by.n)


def measure_in_turns(
    sides: Mapping[str, MeasureSide],
    time: TimeSlot,
    report_progress: Callable[[int], None],
    cost_s: float = 0.0,
    watched: str = "",
) -> SideBlocks:
    """Measure sides until the time is up, for at least three rounds if they fit.

    A side that raises is dropped. If three rounds do not fit, at `cost_s` seconds for a block and
    its start, the last sides are dropped, so the least informative should be last. A
    watchdog already guards the side `watched` against hangs.
    """
    began_s, costs_s = time.clock(), list[float]()
    fitting = time.remaining_s() / (MIN_ROUNDS * cost_s) if cost_s else inf
    chosen = list(sides)[: int(max(1, min(len(sides), fitting)))]

    def wants_round(done: Interleaved[str, Block]) -> bool:
        rounds, elapsed_s = len(done.rounds), time.clock() - began_s
        if rounds == _MAX_ROUNDS or done.longest_round_s > time.remaining_s():
            return False
        if rounds >= MIN_ROUNDS and elapsed_s * (1 + 1 / rounds) > time.budget_s:
            return False
        report_progress(rounds + 1)
        return True

    def measure(side: str) -> Block:
        # Only blocks of the first round are checked: a later round begins only if all of it fits.
        if len(costs_s) < len(chosen):
            time.require(max(costs_s, default=0.0))
        started_s = time.clock()
        try:
            if side == watched:
                return sides[side]()
            return call_within(sides[side], max(_MIN_LIMIT_S, time.remaining_s()))
        finally:
            costs_s.append(time.clock() - started_s)

    done = interleave(
        chosen, measure, wants_round,
        clock=time.clock, until_s=time.until_s, describe_error=describe_error,
    )  # fmt: skip
    failures = {side: NO_TIME for side in sides if not done.results(side)} | done.failures
    kept = [side for side in sides if side not in failures]
    complete = [blocks for blocks in done.rounds if all(side in blocks for side in kept)]
    measured = {side: [blocks[side] for blocks in complete] for side in kept if complete}
    return SideBlocks(measured, failures)


def require_side(side: str, turns: SideBlocks) -> SideBlocks:
    """Return the blocks; raise a SessionError if the side to compare with is missing."""
    if not turns.has(side):
        # The loader has run in this process before, so a variant may have broken it.
        raise SessionError(
            "the loader gave batches at first, but failed when it was started again: "
            f"{turns.why_missing(side)}. If its source hands out the same objects each time and a "
            "map changes them in place, let the source return copies"
        )
    return turns


@contextmanager
def note_failure(remarks: list[str], what: str) -> Iterator[None]:
    """Turn an error into a remark, so that it costs only this part of a diagnosis."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  # the user's code may raise anything
        remarks.append(f"{what}: {describe_error(error)}")


def describe_error(error: Exception) -> str:
    """Return one line on why something failed, without blaming the loader."""
    cause = error.__cause__ if isinstance(error, LoaderFailedError) else None
    return summarize_error(cause if isinstance(cause, Exception) else error)
