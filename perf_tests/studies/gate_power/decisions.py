"""Decisions of the gate, made anew from sessions that were kept."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random
from typing import Final, TypeVar

from netpipe.gate.comparison import BaselineSessions, compare_until_decided
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
    """What a whole run came to: the worst of all its quantities.

    Attributes:
        metric: The metric that decided.
        sessions: How many sessions it took.
    """

    outcome: Outcome
    metric: str
    sessions: int


def decide_run(baseline: Sequence[Measurement], supply: Iterator[Measurement]) -> Decision:
    """Decide as a run does: every quantity on the same sessions, more of them while one is open."""
    accepted = BaselineSessions("the baseline", baseline)
    sessions: tuple[Measurement, ...] = (next(supply),)
    another: Callable[[Comparison], Measurement] = lambda _: next(supply)  # noqa: E731  # a supply
    comparisons = []
    for quantity in GATED:
        comparison, sessions = compare_until_decided(quantity, sessions, accepted, (), another)
        comparisons.append(comparison)
    return _find_worst(comparisons, len(sessions))


def _find_worst(comparisons: Sequence[Comparison], sessions: int) -> Decision:
    worst = min(comparisons, key=lambda comparison: _SEVERITY.index(comparison.outcome))
    return Decision(worst.outcome, worst.metric, sessions)


def replay_decisions(
    unslowed: Sequence[Measurement], now: Sequence[Measurement], count: int, seed: int
) -> Iterator[Decision]:
    """Decide again and again: a baseline of sessions in a row, then others in a row.

    Sessions in a row were taken on a machine in the same state, as those of a recording are.

    Args:
        unslowed: Sessions with nothing slowed down, in the order in which they were taken.
        now: The sessions to decide on, in that order; `unslowed` itself, to count false alarms.
        count: Decisions.
        seed: Of the sessions at which they start.
    """
    random = Random(seed)
    for _ in range(count):
        start = random.randrange(len(unslowed))
        in_a_row = [*unslowed[start:], *unslowed[:start]]
        baseline = list(islice(cycle(in_a_row), BASELINE_SESSIONS))
        others = in_a_row[BASELINE_SESSIONS:] if now is unslowed else now
        yield decide_run(baseline, _repeat_from(others, random.randrange(len(others))))


def _repeat_from(items: Sequence[_Item], start: int) -> Iterator[_Item]:
    """Yield items from a start on, and from the first one again after the last."""
    return islice(cycle(items), start, None)


def decide_in_order(unslowed: Sequence[Measurement]) -> Iterator[Decision]:
    """Decide once through, as it happened: ten sessions are recorded, the others are runs."""
    baseline, runs = unslowed[:BASELINE_SESSIONS], unslowed[BASELINE_SESSIONS:]
    start = 0
    while start < len(runs):
        decision = decide_run(baseline, _repeat_from(runs, start))
        start += decision.sessions
        yield decision
