"""Two versions measured in turns on one machine: what the pairs decide. Pure.

A pair is a session of each version, one right after the other. What both share, the machine and
its load, cancels in its ratio. Statistics use only these ratios, never the rounds of a session.

The rule is sequential: `MIN_PAIRS` first, then one more at a time up to `MAX_PAIRS`, while the
outcome is open. Every look before the last must be more certain, because repeated looks raise more
false alarms. The interval is that of a median, from the spread of the pairs. Where other programs
took more CPU time on one side of a pair, what that explains is added to the bound.
`tests/gate/test_pairs.py` simulates pairs and checks how often the rule is wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, log, log1p
from statistics import median, stdev
from typing import Final

from netpipe.gate.comparison import host_load_change, mark_if_not_comparable, why_not_comparable
from netpipe.gate.metrics import GATED, Metric
from netpipe.gate.outcomes import Comparison, MetricComparison, Outcome
from netpipe.results.measurement import Interval, Measurement
from netpipe.results.statistics import median_quantile

MIN_PAIRS: Final = 3
MAX_PAIRS: Final = 7

# One-sided confidence levels of the last look, and of every look before it.
_LAST_LEVEL: Final = 0.995
_EARLY_LEVEL: Final = 0.998

# Where an interval at this level reaches this change, it may hide a slowdown of 10%.
_OPEN_LEVEL: Final = 0.975
_OPEN_BOUND: Final = log(1.10)

# The spread of pairs is at least this, even where they happen to agree.
_MIN_SPREAD: Final = 0.002


@dataclass(frozen=True)
class Pair:
    """A session of each version, measured one right after the other; `now` is judged."""

    base: Measurement
    now: Measurement


@dataclass(frozen=True)
class Decision:
    """What the pairs so far decide, and whether another pair may change it."""

    comparison: Comparison
    is_open: bool


def decide(quantity: str, pairs: Sequence[Pair]) -> Decision:
    """Decide on one quantity, a key of `GATED`, from at least one pair of measurements.

    The decision is open while any of its metrics is, unless one has regressed.
    """
    comparison = Comparison.from_metrics(
        [_compare_metric(metric, pairs) for metric in GATED[quantity]]
    )
    is_open = comparison.outcome is not Outcome.NOT_COMPARED and (
        len(pairs) < MIN_PAIRS or (len(pairs) < MAX_PAIRS and comparison.is_open)
    )
    return Decision(comparison, is_open)


def _compare_metric(metric: Metric, pairs: Sequence[Pair]) -> MetricComparison:
    changes = [metric.level(pair.now) - metric.level(pair.base) for pair in pairs]
    bound = metric.bound if metric.is_share else log1p(metric.bound)
    bound += median(abs(host_load_change(metric, [pair.now], [pair.base])) for pair in pairs)
    level = _LAST_LEVEL if len(pairs) >= MAX_PAIRS else _EARLY_LEVEL
    outcome = _outcome(_interval(changes, level), bound)
    change = _interval(changes, _LAST_LEVEL)
    ends = sorted(map(metric.format_change, (change.low, change.high)), key=float)
    figures = (
        f"{metric.name} is {metric.format_change(change.median)}{'' if metric.is_share else ' x'} "
        f"({' to '.join(ends)}), {change.n} pair{'s' * (change.n != 1)}"
    )
    too_spread = ": too spread to be sure" if outcome is Outcome.INCONCLUSIVE else ""
    open_bound = bound if metric.is_share else max(bound, _OPEN_BOUND)
    is_open = outcome is Outcome.INCONCLUSIVE or _interval(changes, _OPEN_LEVEL).high > open_bound
    found = MetricComparison(
        metric=metric,
        outcome=outcome,
        now=median(metric.value(pair.now) for pair in pairs),
        then=median(metric.value(pair.base) for pair in pairs),
        worse=metric.to_factors(change),
        bound=metric.to_factor(bound),
        baseline="",
        reason=f"{figures}, bound {metric.format_change(bound)}{too_spread}",
        is_open=is_open,
    )
    different = (pair for pair in pairs if why_not_comparable(metric, pair.now, pair.base))
    pair = next(different, pairs[-1])
    is_reported_only = pair.now.device.shares_host_cores and not metric.is_judged_on_shared_cores
    return mark_if_not_comparable(found, pair.now, pair.base, figures if is_reported_only else "")


def _interval(changes: Sequence[float], level: float) -> Interval:
    """Return the median, with the ends of its one-sided intervals."""
    middle, count = median(changes), len(changes)
    if count < MIN_PAIRS:
        return Interval(middle, -inf, inf, count)
    reach = median_quantile(level, count) * max(_MIN_SPREAD, stdev(changes))
    return Interval(middle, middle - reach, middle + reach, count)


def _outcome(change: Interval, bound: float) -> Outcome:
    if change.median > bound:
        return Outcome.REGRESSED if change.low > 0 else Outcome.INCONCLUSIVE
    if change.median < -bound and change.high < 0:
        return Outcome.IMPROVED
    return Outcome.PASS
