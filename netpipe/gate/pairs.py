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
from dataclasses import dataclass, replace
from math import inf, log
from statistics import median, stdev
from typing import Final

from netpipe.gate.comparison import host_load_change, mark_if_not_comparable, why_not_comparable
from netpipe.gate.metrics import GATED, Metric
from netpipe.gate.outcomes import Comparison, Outcome
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


def decide(quantity: str, pairs: Sequence[Pair]) -> Comparison:
    """Decide on one quantity, a key of `GATED`, from at least one pair of measurements.

    The comparison is open while any of its metrics is, unless one has regressed.
    """
    # The versions of a pair may describe their host differently, and share it all the same.
    shared = [Pair(replace(pair.base, host=pair.now.host), pair.now) for pair in pairs]
    found = Comparison.from_metrics([_compare_metric(metric, shared) for metric in GATED[quantity]])
    is_open = len(pairs) < MIN_PAIRS or (len(pairs) < MAX_PAIRS and found.is_open)
    return replace(found, is_open=is_open and found.outcome is not Outcome.NOT_COMPARED)


def _compare_metric(metric: Metric, pairs: Sequence[Pair]) -> Comparison:
    changes = [metric.level(pair.now) - metric.level(pair.base) for pair in pairs]
    change = _interval(changes, _LAST_LEVEL)
    bound = metric.bound_change(shared_cores=False, same_machine=True)
    bound += median(abs(host_load_change(metric, [pair.now], [pair.base])) for pair in pairs)
    outcome, is_open = _judge(changes, bound, bound if metric.is_share else _OPEN_BOUND)
    figures = _format_figures(metric, change)
    too_spread = ": too spread to be sure" if outcome is Outcome.INCONCLUSIVE else ""
    found = Comparison(
        metric=metric.name,
        outcome=outcome,
        now=median(metric.value(pair.now) for pair in pairs),
        then=median(metric.value(pair.base) for pair in pairs),
        worse=metric.to_factors(change),
        bound=metric.to_factor(bound),
        reason=f"{figures}, bound {metric.format_change(bound)}{too_spread}",
        is_open=is_open,
    )
    reasons = (why_not_comparable(metric, pair.now, pair.base) for pair in pairs)
    difference = next(filter(None, reasons), "")
    shares_cores = pairs[-1].now.device.shares_host_cores
    is_reported_only = shares_cores and not metric.is_judged_on_shared_cores
    return mark_if_not_comparable(found, difference, figures if is_reported_only else "")


def _format_figures(metric: Metric, change: Interval) -> str:
    ends = sorted(map(metric.format_change, (change.low, change.high)), key=float)
    return (
        f"{metric.name} is {metric.format_change(change.median)}{'' if metric.is_share else ' x'} "
        f"({' to '.join(ends)}), {change.n} pair{'s' * (change.n != 1)}"
    )


def _interval(changes: Sequence[float], level: float) -> Interval:
    """Return the median, with the ends of its one-sided intervals."""
    middle, count = median(changes), len(changes)
    if count < MIN_PAIRS:
        return Interval(middle, -inf, inf, count)
    reach = median_quantile(level, count) * max(_MIN_SPREAD, stdev(changes))
    return Interval(middle, middle - reach, middle + reach, count)


def _judge(changes: Sequence[float], bound: float, open_bound: float) -> tuple[Outcome, bool]:
    """Return the outcome, and whether another pair may change it."""
    change = _interval(changes, _LAST_LEVEL if len(changes) >= MAX_PAIRS else _EARLY_LEVEL)
    is_open = _interval(changes, _OPEN_LEVEL).high > max(bound, open_bound)
    if change.median > bound:
        return (Outcome.REGRESSED, is_open) if change.low > 0 else (Outcome.INCONCLUSIVE, True)
    is_better = change.median < -bound and change.high < 0
    return Outcome.IMPROVED if is_better else Outcome.PASS, is_open
