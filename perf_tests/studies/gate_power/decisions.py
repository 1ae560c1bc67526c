"""Decisions of the gate, made anew from sessions that were kept."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final, TypeVar

from netpipe.gate import pairs
from netpipe.gate.comparison import BaselineSessions, Comparison, Outcome, compare_until_decided
from netpipe.gate.metrics import GATED
from netpipe.gate.pairs import Pair
from netpipe.results.measurement import Measurement

BASELINE_SESSIONS: Final = 10
_One = TypeVar("_One")
_SEVERITY: Final = (
    Outcome.REGRESSED,
    Outcome.INCONCLUSIVE,
    Outcome.IMPROVED,
    Outcome.PASS,
    Outcome.NOT_COMPARED,
)


@dataclass(frozen=True)
class Decision:
    """What a whole run came to: the worst of all its quantities.

    Attributes:
        outcome: It.
        metric: The metric that decided.
        sessions: Sessions that it took.
    """

    outcome: Outcome
    metric: str
    sessions: int


def decided(baseline: Sequence[Measurement], supply: Iterator[Measurement]) -> Decision:
    """Decide as a run does: every quantity on the same sessions, more of them while one is open."""
    accepted = BaselineSessions("the baseline", baseline)
    sessions: tuple[Measurement, ...] = (next(supply),)
    another: Callable[[Comparison], Measurement] = lambda _: next(supply)  # noqa: E731  # a supply
    found = []
    for quantity in GATED:
        comparison, sessions = compare_until_decided(quantity, sessions, accepted, (), another)
        found.append(comparison)
    worst = min(found, key=lambda one: _SEVERITY.index(one.outcome))
    return Decision(worst.outcome, worst.metric, len(sessions))


def replayed(
    unslowed: Sequence[Measurement], now: Sequence[Measurement], wanted: int, seed: int
) -> Iterator[Decision]:
    """Decide again and again: a baseline of sessions in a row, then others in a row.

    Sessions in a row share what the machine did in those minutes, as those of a recording do.

    Args:
        unslowed: Sessions with nothing slowed down, in the order in which they were taken.
        now: The sessions to decide on, in that order; `unslowed` itself, to count false alarms.
        wanted: Decisions.
        seed: Of the places at which they start.
    """
    random = Random(seed)
    for _ in range(wanted):
        start = random.randrange(len(unslowed))
        baseline = [_at(unslowed, start + place) for place in range(BASELINE_SESSIONS)]
        if now is unslowed:
            others = [_at(now, start + place) for place in range(BASELINE_SESSIONS, len(now))]
        else:
            others = list(now)
        yield decided(baseline, _in_a_row(others, random.randrange(len(others))))


def _at(some: Sequence[_One], place: int) -> _One:
    return some[place % len(some)]


def _in_a_row(some: Sequence[_One], start: int) -> Iterator[_One]:
    while True:
        yield _at(some, start)
        start += 1


def in_order(unslowed: Sequence[Measurement]) -> Iterator[Decision]:
    """Decide once through, as it happened: ten sessions are recorded, the others are runs."""
    baseline, runs = unslowed[:BASELINE_SESSIONS], unslowed[BASELINE_SESSIONS:]
    place = 0
    while place < len(runs):
        decision = decided(baseline, _in_a_row(runs, place))
        place += decision.sessions
        yield decision


def against(taken: Sequence[Pair], wanted: int, seed: int) -> Iterator[Decision]:
    """Decide again and again on pairs in a row, as a run against a ref does."""
    random = Random(seed)
    for _ in range(wanted):
        yield _decided_by_pairs(_in_a_row(taken, random.randrange(len(taken))))


def _decided_by_pairs(supply: Iterator[Pair]) -> Decision:
    taken = [next(supply)]
    found = _by_pairs(taken)
    while any(one.is_open for one in found):
        taken.append(next(supply))
        found = _by_pairs(taken)
    comparisons = [one.comparison for one in found]
    worst = min(comparisons, key=lambda one: _SEVERITY.index(one.outcome))
    return Decision(worst.outcome, worst.metric, 2 * len(taken))


def _by_pairs(taken: Sequence[Pair]) -> list[pairs.Decision]:
    return [pairs.decide(quantity, taken) for quantity in GATED]
