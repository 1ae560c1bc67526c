"""Decisions of the gate, replayed from recorded sessions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from random import Random
from typing import Final, TypeVar

from netpipe.gate.comparison import BaselineSessions, compare, compare_until_decided
from netpipe.gate.metrics import GATED
from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.results.measurement import Measurement

BASELINE_SESSIONS: Final = 10
_Item = TypeVar("_Item")
_SEVERITY: Final = (
    Outcome.REGRESSED,
    Outcome.INCONCLUSIVE,
    Outcome.IMPROVED,
    Outcome.PASS,
    Outcome.NOT_COMPARED,
)


@dataclass(frozen=True)
class Decision:
    """The decision on a whole run: the worst one of its metrics.

    Attributes:
        metric: The metric that decided.
        sessions: Number of sessions it took.
    """

    outcome: Outcome
    metric: str
    sessions: int


def decide_run(baseline: Sequence[Measurement], supply: Iterator[Measurement]) -> Decision:
    """Decide as a run does: all metrics on the same sessions, with more while one is open."""
    accepted = BaselineSessions("the baseline", baseline)
    sessions = [next(supply)]
    comparisons = [
        compare_until_decided(
            partial(compare, quantity, sessions, accepted),
            lambda _: sessions.append(next(supply)),
        )
        for quantity in GATED
    ]
    return _find_worst(comparisons, len(sessions))


def _find_worst(comparisons: Sequence[Comparison], sessions: int) -> Decision:
    worst = min(comparisons, key=lambda comparison: _SEVERITY.index(comparison.outcome))
    return Decision(worst.outcome, worst.metric, sessions)


def replay_decisions(
    unslowed: Sequence[Measurement], now: Sequence[Measurement], count: int, seed: int
) -> Iterator[Decision]:
    """Decide `count` times: on a baseline of consecutive sessions, then on later ones.

    Consecutive sessions saw the machine in the same state, as in a recording.

    Args:
        unslowed: Sessions with nothing slowed down, in the order in which they were taken.
        now: The sessions to decide on, in that order; `unslowed` itself, to count false alarms.
        count: Number of decisions.
        seed: Seed of the draw of first sessions.
    """
    random = Random(seed)
    for _ in range(count):
        start = random.randrange(len(unslowed))
        in_a_row = [*unslowed[start:], *unslowed[:start]]
        baseline = list(islice(cycle(in_a_row), BASELINE_SESSIONS))
        others = in_a_row[BASELINE_SESSIONS:] if now is unslowed else now
        yield decide_run(baseline, _repeat_from(others, random.randrange(len(others))))


def _repeat_from(items: Sequence[_Item], start: int) -> Iterator[_Item]:
    """Yield items from `start` on, cyclically."""
    return islice(cycle(items), start, None)


def decide_in_order(unslowed: Sequence[Measurement]) -> Iterator[Decision]:
    """Decide in recorded order: ten sessions are the baseline, the others are runs."""
    baseline, runs = unslowed[:BASELINE_SESSIONS], unslowed[BASELINE_SESSIONS:]
    start = 0
    while start < len(runs):
        decision = decide_run(baseline, _repeat_from(runs, start))
        start += decision.sessions
        yield decision
