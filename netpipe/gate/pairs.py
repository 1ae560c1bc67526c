"""Two versions measured in turns on one machine: what the pairs decide. Pure.

A pair is a session of each version, one right after the other; its ratio has what both shared, the
machine and its load, taken out. The process is the unit: only ratios of pairs are looked at, never
the rounds within a session.

The rule is sequential: `MIN_PAIRS` first, then one more at a time, up to `MAX_PAIRS`, while the
answer is open. Looking several times costs certainty, so until the last look an alarm must be
beyond more doubt. The interval is that of a median, from the spread that the pairs show.
What more of other programs on one side of a pair explains is added to the bound.
`tests/gate/test_pairs.py` draws pairs and holds how often the rule is wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log, log1p
from statistics import median, stdev
from typing import Final

from netpipe.gate.comparison import (
    Comparison,
    MetricComparison,
    Outcome,
    combine,
    host_load_change,
    mark_if_not_comparable,
    why_not_comparable,
)
from netpipe.gate.metrics import GATED, Metric
from netpipe.results.measurement import Interval, Measurement
from netpipe.results.statistics import median_quantile

MIN_PAIRS: Final = 3
MAX_PAIRS: Final = 7

_LEVEL: Final = 0.995  # of the last look, one-sided
_EARLY_LEVEL: Final = 0.998  # of every look before it
_OPEN_LEVEL: Final = 0.975
_OPEN_BEYOND: Final = log(1.10)  # an interval that reaches so far may hide a slowdown of 10%
_LEAST_SPREAD: Final = 0.002  # of pairs that happen to agree


@dataclass(frozen=True)
class Pair:
    """A session of each version, measured one right after the other.

    Attributes:
        base: Of what is compared with.
        now: Of what is judged.
    """

    base: Measurement
    now: Measurement


@dataclass(frozen=True)
class Decision:
    """What the pairs come to so far.

    Attributes:
        comparison: As it stands; `then` is the base's median over its sessions.
        is_open: Whether another pair could change it.
    """

    comparison: Comparison
    is_open: bool


def decide(quantity: str, pairs: Sequence[Pair]) -> Decision:
    """Decide on one quantity from pairs of measurements.

    Args:
        quantity: A key of `GATED`.
        pairs: At least one.

    Returns:
        All of the quantity's metrics; open as long as any of them is, unless one is worse for
        certain.
    """
    comparison = combine([_compared(metric, pairs) for metric in GATED[quantity]])
    is_open = comparison.outcome is not Outcome.NOT_COMPARED and (
        len(pairs) < MIN_PAIRS
        or (
            len(pairs) < MAX_PAIRS
            and comparison.outcome is not Outcome.REGRESSED
            and comparison.is_open
        )
    )
    return Decision(comparison, is_open)


def _compared(metric: Metric, pairs: Sequence[Pair]) -> MetricComparison:
    changes = [metric.level(one.now) - metric.level(one.base) for one in pairs]
    worth = metric.bound if metric.is_share else log1p(metric.bound)
    worth += median(abs(host_load_change(metric, one.now, one.base)) for one in pairs)
    proven = _interval(changes, _LEVEL if len(pairs) >= MAX_PAIRS else _EARLY_LEVEL)
    outcome = _outcome(proven, worth)
    far = worth if metric.is_share else max(worth, _OPEN_BEYOND)
    reaches_far = _interval(changes, _OPEN_LEVEL).high > far
    change = _interval(changes, _LEVEL)
    told = _told(metric, change)
    too_spread = ": too spread to be sure" if outcome is Outcome.INCONCLUSIVE else ""
    found = MetricComparison(
        metric=metric,
        outcome=outcome,
        now=median(metric.value(one.now) for one in pairs),
        then=median(metric.value(one.base) for one in pairs),
        worse=metric.to_factors(change),
        bound=metric.to_factor(worth),
        where="",
        reason=f"{told}, bound {metric.format_change(worth)}{too_spread}",
        is_open=outcome is Outcome.INCONCLUSIVE or reaches_far,
    )
    different = (one for one in pairs if why_not_comparable(metric, one.now, one.base))
    pair = next(different, pairs[-1])
    is_reported_only = pair.now.device.shares_host_cores and not metric.is_judged_on_shared_cores
    return mark_if_not_comparable(found, pair.now, pair.base, told if is_reported_only else "")


def _interval(changes: Sequence[float], level: float) -> Interval:
    """Return the median, with the ends of its one-sided intervals."""
    middle, count = median(changes), len(changes)
    if count < MIN_PAIRS:
        return Interval(middle, -inf, inf, count)
    reach = median_quantile(level, count) * max(_LEAST_SPREAD, stdev(changes))
    return Interval(middle, middle - reach, middle + reach, count)


def _outcome(change: Interval, worth: float) -> Outcome:
    if change.median > worth:
        return Outcome.REGRESSED if change.low > 0 else Outcome.INCONCLUSIVE
    if change.median < -worth and change.high < 0:
        return Outcome.IMPROVED
    return Outcome.PASS


def _told(metric: Metric, change: Interval) -> str:
    ends = sorted((metric.format_change(change.low), metric.format_change(change.high)), key=float)
    times = "" if metric.is_share else " x"
    return (
        f"{metric.name} is {metric.format_change(change.median)}{times} ({' to '.join(ends)}), "
        f"{change.n} pair{'s' * (change.n != 1)}"
    )
