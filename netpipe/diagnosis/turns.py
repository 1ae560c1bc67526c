"""Sides measured in turns, there and back (A B B A), so that a slower hour favours none."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, inf, log, sqrt
from statistics import fmean, median, stdev
from typing import Final

from netpipe.diagnosis.blocks import Block
from netpipe.diagnosis.schedule import NO_TIME, Time
from netpipe.errors import LoaderFailedError, SessionError
from netpipe.gate.comparison import quantile
from netpipe.results.measurement import Interval
from netpipe.session.bounded_calls import call_within, summarize_error

LEAST_ROUNDS: Final = 3  # with fewer, a ratio has no interval
_MOST_ROUNDS: Final = 9
_LEAST_FOR_SPREAD: Final = 2
_LEAST_LIMIT_S: Final = 5.0  # for a block that is begun as the time is up
_UPPER: Final = 0.975

Side = Callable[[], Block]
"""Measures one block."""


@dataclass(frozen=True)
class Turns:
    """Blocks of several sides, one of each in a round.

    Attributes:
        rounds: The blocks of each round by the names of the sides; a side that failed is in none.
        failures: Why a side failed, by its name.
    """

    rounds: tuple[Mapping[str, Block], ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)

    def has(self, side: str) -> bool:
        """Whether a side was measured."""
        return bool(self.rounds) and side in self.rounds[0]

    def blocks(self, side: str) -> list[Block]:
        """Return the blocks of a side, one a round."""
        return [one[side] for one in self.rounds]

    def s_per_batch(self, side: str) -> tuple[float, ...]:
        """Return the seconds a batch of a side, one a round."""
        return tuple(one.s_per_batch for one in self.blocks(side))

    def undelayed(self) -> "Turns":
        """Return the same as a machine with nothing else to do would have it."""
        rounds = tuple(
            {
                name: replace(block, s_per_batch=block.undelayed_s_per_batch)
                for name, block in one.items()
            }
            for one in self.rounds
        )
        return Turns(rounds, self.failures)

    def dropping(self, side: str, why: str) -> "Turns":
        """Return the same without a side that tells nothing, and why it does not."""
        rounds = tuple({name: one[name] for name in one if name != side} for one in self.rounds)
        return Turns(rounds, {**self.failures, side: why})

    def interval(self, side: str) -> Interval:
        """Return the seconds a batch of a side."""
        return interval_of(self.s_per_batch(side))

    def speedup(self, side: str, over: str) -> Interval:
        """Return the batches a second of a side over those of another."""
        pairs = zip(self.s_per_batch(over), self.s_per_batch(side), strict=True)
        return interval_of([before / after for before, after in pairs])

    def after(self, side: str, over: str) -> Interval:
        """Return the seconds a batch of a side, as those of another over the speedup.

        The two were measured in turns: their ratio is better known than either of them.
        """
        before_s, speedup = self.interval(over).median, self.speedup(side, over)
        low_s = before_s / speedup.high
        high_s = before_s / speedup.low if speedup.low else inf
        return Interval(before_s / speedup.median, low_s, high_s, speedup.n)


def interval_of(values: Sequence[float]) -> Interval:
    """Return the median with Student's 95% interval of the mean of the logarithms.

    Times and their ratios are spread by factors, and there are too few rounds for an interval
    between two of them.

    Args:
        values: One a round, all above 0, at least one.
    """
    n, middle = len(values), median(values)
    if n < _LEAST_FOR_SPREAD:
        return Interval(middle, 0.0, inf, n)
    logs = [log(one) for one in values]
    reach = quantile(_UPPER, n - 1) * stdev(logs) / sqrt(n)
    low, high = exp(fmean(logs) - reach), exp(fmean(logs) + reach)
    return Interval(middle, min(low, middle), max(high, middle), n)


def in_turns(
    sides: Mapping[str, Side],
    time: Time,
    say: Callable[[int], None],
    cost_s: float = 0.0,
    watched: str = "",
) -> Turns:
    """Measure sides until the time is up, three rounds at least where they fit.

    Args:
        sides: What measures each side, by its name, the most informative first; one that raises is
            left out, and so are the last ones where there is no time for three rounds of them.
        time: How long it may take.
        say: Is told the number of each round, from 1 on.
        cost_s: About what one block of a side takes, its start included.
        watched: The side whose hanging somebody else looks after.
    """
    started, longest_s = time.clock(), 0.0
    fitting = min(len(sides), time.left_s() / (LEAST_ROUNDS * cost_s)) if cost_s else len(sides)
    failures = dict.fromkeys(list(sides)[max(1, int(fitting)) :], NO_TIME)
    rounds: list[dict[str, Block]] = []
    while len(rounds) < _MOST_ROUNDS and longest_s <= time.left_s():
        elapsed_s = time.clock() - started
        if len(rounds) >= LEAST_ROUNDS and elapsed_s * (1 + 1 / len(rounds)) > time.budget_s:
            break
        say(len(rounds) + 1)
        left = {name: side for name, side in sides.items() if name not in failures}
        rounds.append(_one_round(left, len(rounds), failures, time, watched))
        longest_s = max(longest_s, time.clock() - started - elapsed_s)
        if not any(rounds[-1].values()):
            break
    kept = [one for one in rounds if one]
    return Turns(
        tuple({name: block for name, block in one.items() if name not in failures} for one in kept),
        failures,
    )


def _one_round(
    sides: Mapping[str, Side], number: int, failures: dict[str, str], time: Time, watched: str
) -> dict[str, Block]:
    blocks, longest_s = dict[str, Block](), 0.0
    for name in list(sides)[:: -1 if number % 2 else 1]:
        started = time.clock()
        # Of the first round only: a later one is not begun unless all of it fits.
        if blocks and not number and longest_s > time.left_s():
            failures[name] = NO_TIME
            continue
        try:
            blocks[name] = (
                sides[name]()
                if name == watched
                else call_within(sides[name], max(_LEAST_LIMIT_S, time.left_s()))
            )
        except Exception as error:  # noqa: BLE001  # the user's code may raise anything
            failures[name] = reason(error)
        longest_s = max(longest_s, time.clock() - started)
    return blocks


def with_side(side: str, turns: Turns) -> Turns:
    """Return turns that have the side which all others are held against.

    Raises:
        SessionError: They have not.
    """
    if not turns.has(side):
        # It has given batches in this process before, so that a variant may have caused this.
        raise SessionError(
            f"the loader gave batches at first, but failed when it was started again: "
            f"{turns.failures[side]}. If its source hands out the same objects each time and a map "
            "changes them in place, let the source return copies"
        )
    return turns


def reason(error: Exception) -> str:
    """Return why something failed in one line, without saying that it was the loader."""
    cause = error.__cause__ if isinstance(error, LoaderFailedError) else None
    return summarize_error(cause if isinstance(cause, Exception) else error)
