"""Two versions measured in turns on one machine: what the pairs decide. Pure.

A pair is a session of each version, one right after the other; its ratio has what both shared, the
machine and its load, taken out. The process is the unit: only ratios of pairs are looked at, never
the rounds within a session.

The rule is sequential: `LEAST_PAIRS` first, then one more at a time, up to `MOST_PAIRS`, while the
answer is open. Looking several times costs certainty. Simulated for one metric whose ratios spread
normally by 2, 3, 5, 10 and 20% from pair to pair: false alarms on identical code 0.1, 0.8, 2.2, 3.2
and 2.6% where 3% is worth naming, and 0.0, 0.1, 1.0, 2.5 and 3.5% where 5% is; slowdowns of 10%
found 100, 100, 87, 39 and 14%, and nearly all the rest are inconclusive. On identical code it takes
3.2 pairs on average at a spread of 2%, and 6.2 at 10%.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, log1p
from statistics import median
from typing import Final

from netpipe.harness.gate import Compared, Comparison, Outcome, no_baseline, worst_of
from netpipe.harness.measurement import Interval, Measurement
from netpipe.harness.metrics import GATED, Metric
from netpipe.harness.stats import median_interval

LEAST_PAIRS: Final = 3
MOST_PAIRS: Final = 7

_OPEN_BEYOND: Final = log(1.10)  # an interval that reaches so far may hide a slowdown of 10%


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
    different = _different(pairs)
    if different:
        now = [one.now for one in pairs]
        return Decision(no_baseline(quantity, now, different), is_open=False)
    shared = pairs[-1].now.device.shares_host_cores
    metrics = [one for one in GATED[quantity] if one.on_shared_cores or not shared]
    comparison = worst_of([_compared(metric, pairs) for metric in metrics])
    is_open = len(pairs) < LEAST_PAIRS or (
        len(pairs) < MOST_PAIRS
        and comparison.outcome is not Outcome.REGRESSED
        and comparison.is_open
    )
    return Decision(comparison, is_open)


def _different(pairs: Sequence[Pair]) -> str:
    """Return why the two versions are not to be compared; "" where they are."""
    for one in pairs:
        if one.base.device.key != one.now.device.key:
            return f"it ran on {one.base.device.key}, and this version on {one.now.device.key}"
        if one.base.fingerprint != one.now.fingerprint:
            return "it measures other data or another configuration"
    return ""


def _compared(metric: Metric, pairs: Sequence[Pair]) -> Compared:
    change = median_interval([metric.level(one.now) - metric.level(one.base) for one in pairs])
    worth = metric.least if metric.is_share else log1p(metric.least)
    outcome = _outcome(change, worth)
    reaches_far = change.high > (metric.least if metric.is_share else _OPEN_BEYOND)
    return Compared(
        metric=metric,
        outcome=outcome,
        now=median(metric.value(one.now) for one in pairs),
        then=median(metric.value(one.base) for one in pairs),
        worse=metric.worse_interval(change),
        bound=metric.worse(worth),
        where="",
        reason=_told(metric, change, outcome, worth),
        is_open=outcome is Outcome.INCONCLUSIVE or reaches_far,
    )


def _outcome(change: Interval, worth: float) -> Outcome:
    if change.median > worth:
        return Outcome.REGRESSED if change.low > 0 else Outcome.INCONCLUSIVE
    if change.median < -worth and change.high < 0:
        return Outcome.IMPROVED
    return Outcome.PASS


def _told(metric: Metric, change: Interval, outcome: Outcome, worth: float) -> str:
    ends = sorted((metric.shown(change.low), metric.shown(change.high)), key=float)
    times = "" if metric.is_share else " x"
    told = (
        f"{metric.name} is {metric.shown(change.median)}{times} ({' to '.join(ends)}), "
        f"{change.n} pair{'s' * (change.n != 1)}, bound {metric.shown(worth)}"
    )
    return f"{told}: too spread to be sure" if outcome is Outcome.INCONCLUSIVE else told
