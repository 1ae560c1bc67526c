"""Blocks of several sides, measured in turns, and the figures that they give."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, log, sqrt
from statistics import fmean, median, stdev
from typing import Final

from netpipe.diagnosis.blocks import Block
from netpipe.diagnosis.schedule import NO_TIME, TimeSlot
from netpipe.errors import LoaderFailedError, SessionError
from netpipe.gate.comparison import student_quantile
from netpipe.measuring.interleaving import MIN_ROUNDS as MIN_ROUNDS
from netpipe.measuring.interleaving import Interleaved, interleave
from netpipe.results.measurement import Interval
from netpipe.session.bounded_calls import call_within, summarize_error

_MAX_ROUNDS: Final = 9
# A block that begins shortly before the deadline may still take this long.
_MIN_LIMIT_S: Final = 5.0

Side = Callable[[], Block]
"""Measures one block."""


@dataclass(frozen=True)
class SideBlocks:
    """Blocks of several sides, one of each in a round.

    Attributes:
        rounds: The blocks of each round by side. A side that failed is in none of them.
        failures: Why a side failed, by side.
    """

    rounds: tuple[Mapping[str, Block], ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)

    def has(self, side: str) -> bool:
        """Whether a side was measured."""
        return bool(self.rounds) and side in self.rounds[0]

    def blocks(self, side: str) -> list[Block]:
        """Return the blocks of a side, one per round."""
        return [blocks[side] for blocks in self.rounds]

    def s_per_batch(self, side: str) -> tuple[float, ...]:
        """Return a side's seconds per batch, one value per round."""
        return tuple(block.s_per_batch for block in self.blocks(side))

    def undelayed(self) -> "SideBlocks":
        """Return the blocks with the times of a machine that does nothing else."""
        rounds = tuple(
            {
                side: replace(block, s_per_batch=block.undelayed_s_per_batch)
                for side, block in blocks.items()
            }
            for blocks in self.rounds
        )
        return replace(self, rounds=rounds)

    def without_side(self, side: str, why: str) -> "SideBlocks":
        """Return the blocks of the other sides, with the reason why this one was dropped."""
        rounds = tuple(
            {name: blocks[name] for name in blocks if name != side} for blocks in self.rounds
        )
        return SideBlocks(rounds, {**self.failures, side: why})

    def interval(self, side: str) -> Interval:
        """Return a side's seconds per batch."""
        return log_interval(self.s_per_batch(side))

    def speedup(self, side: str, over: str) -> Interval:
        """Return a side's batches per second over those of another side."""
        pairs = zip(self.s_per_batch(over), self.s_per_batch(side), strict=True)
        return log_interval([before / after for before, after in pairs])

    def paired_interval(self, side: str, over: str) -> Interval:
        """Return a side's seconds per batch, as those of another side over the speedup.

        The two were measured in turns, so their ratio is known better than either of them.
        """
        before_s, speedup = self.interval(over).median, self.speedup(side, over)
        low_s = before_s / speedup.high
        high_s = before_s / speedup.low if speedup.low else inf
        return Interval(before_s / speedup.median, low_s, high_s, speedup.n)


def log_interval(values: Sequence[float]) -> Interval:
    """Return the median with Student's 95% interval of the mean of the logarithms.

    Times and their ratios vary by factors, and there are too few rounds for an interval between
    two of the values.

    Args:
        values: At least one, all above 0.
    """
    n, middle = len(values), median(values)
    if n == 1:
        return Interval(middle, 0.0, inf, n)
    logs = [log(value) for value in values]
    reach = student_quantile(0.975, n - 1) * stdev(logs) / sqrt(n)
    low, high = exp(fmean(logs) - reach), exp(fmean(logs) + reach)
    return Interval(middle, min(low, middle), max(high, middle), n)


def measure_in_turns(
    sides: Mapping[str, Side],
    time: TimeSlot,
    say: Callable[[int], None],
    cost_s: float = 0.0,
    watched: str = "",
) -> SideBlocks:
    """Measure sides until the time is up, for at least three rounds where they fit.

    Args:
        sides: What measures each side, the most informative side first. A side that raises is left
            out, and so are the last sides where there is no time for three rounds of them.
        time: How long it may take.
        say: Called with the number of each round, from 1 on.
        cost_s: About how many seconds a block of a side takes, its start included.
        watched: The side that a watchdog already guards against hangs.
    """
    began_s = time.clock()
    fitting = time.remaining_s() / (MIN_ROUNDS * cost_s) if cost_s else inf
    chosen = list(sides)[: int(max(1, min(len(sides), fitting)))]

    def wants_round(done: Interleaved[str, Block]) -> bool:
        rounds, elapsed_s = len(done.rounds), time.clock() - began_s
        if rounds == _MAX_ROUNDS or done.longest_round_s > time.remaining_s():
            return False
        if rounds >= MIN_ROUNDS and elapsed_s * (1 + 1 / rounds) > time.budget_s:
            return False
        say(rounds + 1)
        return True

    costs_s: list[float] = []

    def measure(side: str) -> Block:
        # A later round does not begin unless all of it fits.
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
    complete = [blocks for blocks in done.rounds if kept and all(side in blocks for side in kept)]
    return SideBlocks(tuple({side: blocks[side] for side in kept} for blocks in complete), failures)


def require_side(side: str, turns: SideBlocks) -> SideBlocks:
    """Return the blocks if they have the side that all others are compared with.

    Raises:
        SessionError: They do not.
    """
    if not turns.has(side):
        # It has given batches in this process before, so that a variant may have caused this.
        raise SessionError(
            f"the loader gave batches at first, but failed when it was started again: "
            f"{turns.failures[side]}. If its source hands out the same objects each time and a map "
            "changes them in place, let the source return copies"
        )
    return turns


def describe_error(error: Exception) -> str:
    """Return why something failed in one line, without saying that it was the loader."""
    cause = error.__cause__ if isinstance(error, LoaderFailedError) else None
    return summarize_error(cause if isinstance(cause, Exception) else error)
