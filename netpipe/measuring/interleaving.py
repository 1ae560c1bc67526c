"""Measure several sides alternately, forwards and backwards: A B, B A, A B and so on.

A machine that slows down meanwhile then does not favour any side.
"""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import Final, Generic, TypeVar

Side = TypeVar("Side", bound=Hashable)
Result = TypeVar("Result")

MIN_ROUNDS: Final = 3
"""The minimum number of rounds for an interval of their ratios."""


@dataclass
class Interleaved(Generic[Side, Result]):
    """The results so far, and the reason for each failure.

    Attributes:
        rounds: The results of each round by side. A side is missing from the round in which it
            failed and from later ones; the deadline may leave the last round incomplete.
    """

    rounds: list[dict[Side, Result]] = field(default_factory=list)
    failures: dict[Side, str] = field(default_factory=dict)
    longest_round_s: float = 0.0

    def results(self, side: Side) -> list[Result]:
        """Return the results of a side, in the order of the rounds."""
        return [results[side] for results in self.rounds if side in results]


def order_of_round(sides: Sequence[Side], number: int) -> Sequence[Side]:
    """Return the order of the sides in round `number`, counted from 0; reverse odd rounds."""
    return sides[:: -1 if number % 2 else 1]


def interleave(
    sides: Iterable[Side],
    measure: Callable[[Side], Result],
    wants_round: Callable[[Interleaved[Side, Result]], bool],
    *,
    clock: Callable[[], float] = monotonic,
    until_s: float = inf,
    describe_error: Callable[[Exception], str] | None = None,
) -> Interleaved[Side, Result]:
    """Measure each side once per round, and return the results.

    The most important side comes first. `wants_round` decides from the results so far whether to
    run another round. After the deadline `until_s`, only the first side of a round starts, and
    only sides without results can fail. Without `describe_error`, errors of `measure` propagate.
    """
    done = Interleaved[Side, Result]()
    while True:
        remaining = [side for side in sides if side not in done.failures]
        if not remaining or not wants_round(done):
            return done
        began_s, results = clock(), dict[Side, Result]()
        order = order_of_round(remaining, len(done.rounds))
        done.rounds.append(results)
        for index, side in enumerate(order):
            if index and clock() >= until_s:
                break
            try:
                results[side] = measure(side)
            except Exception as error:
                if describe_error is None:
                    raise
                if clock() < until_s or not done.results(side):
                    done.failures[side] = describe_error(error)
        done.longest_round_s = max(done.longest_round_s, clock() - began_s)
