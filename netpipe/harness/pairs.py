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
from statistics import median
from typing import Final

from netpipe.harness.gate import GATED, Comparison, Metric, Outcome
from netpipe.harness.measurement import Interval, Measurement
from netpipe.harness.stats import ratio_interval

LEAST_PAIRS: Final = 3
MOST_PAIRS: Final = 7

_WORTH_NAMING: Final = 0.05  # of a time, as a fraction
_WORTH_NAMING_STEADY: Final = 0.03  # of what the machine's load hardly moves
_OPEN_BEYOND: Final = 1.10  # an interval that reaches so far may hide a slowdown of 10%

_SEVERITY: Final = (Outcome.REGRESSED, Outcome.INCONCLUSIVE, Outcome.IMPROVED, Outcome.PASS)


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
        The worst of the quantity's metrics; open as long as any of them is, unless one is worse
        for certain.
    """
    different = _different(pairs)
    if different:
        value: Interval = getattr(pairs[-1].now, quantity)
        nothing = Comparison(Outcome.NO_BASELINE, "", value.median, None, None, different)
        return Decision(nothing, is_open=False)
    decisions = [_decide(metric, pairs) for metric in GATED[quantity]]
    worst = min(decisions, key=lambda one: _SEVERITY.index(one.comparison.outcome))
    is_open = len(pairs) < LEAST_PAIRS or (
        len(pairs) < MOST_PAIRS
        and worst.comparison.outcome is not Outcome.REGRESSED
        and any(one.is_open for one in decisions)
    )
    return Decision(worst.comparison, is_open)


def _different(pairs: Sequence[Pair]) -> str:
    """Return why the two versions are not to be compared; "" where they are."""
    for one in pairs:
        if one.base.device.key != one.now.device.key:
            return f"it ran on {one.base.device.key}, and this version on {one.now.device.key}"
        if one.base.fingerprint != one.now.fingerprint:
            return "it measures other data or another configuration"
    return ""


def _decide(metric: Metric, pairs: Sequence[Pair]) -> Decision:
    now, base = (
        [getattr(one, metric.name).median for one in sessions]
        for sessions in ([one.now for one in pairs], [one.base for one in pairs])
    )

    def decision(outcome: Outcome, worse: float | None, reason: str, is_open: bool) -> Decision:
        compared = Comparison(outcome, metric.name, median(now), median(base), worse, reason)
        return Decision(compared, is_open)

    if min(*now, *base) <= 0:
        reason = f"{metric.name} is not above 0 in every session: there is no ratio of it"
        return decision(Outcome.INCONCLUSIVE, None, reason, is_open=True)
    worse = ratio_interval(now, base) if metric.lower_is_better else ratio_interval(base, now)
    bound = 1 + (_WORTH_NAMING_STEADY if metric.steady else _WORTH_NAMING)
    outcome = _outcome(worse, bound)
    is_open = outcome is Outcome.INCONCLUSIVE or worse.high > _OPEN_BEYOND
    return decision(outcome, worse.median, _told(metric, worse, outcome, bound), is_open)


def _outcome(worse: Interval, bound: float) -> Outcome:
    if worse.median > bound:
        return Outcome.REGRESSED if worse.low > 1 else Outcome.INCONCLUSIVE
    if worse.median < 1 / bound and worse.high < 1:
        return Outcome.IMPROVED
    return Outcome.PASS


def _told(metric: Metric, worse: Interval, outcome: Outcome, bound: float) -> str:
    pairs = f"{worse.n} pair{'s' * (worse.n != 1)}, bound {bound:.2f}"
    told = f"{metric.name} is {worse.median:.2f} x ({worse.low:.2f} to {worse.high:.2f}), {pairs}"
    return f"{told}: too spread to be sure" if outcome is Outcome.INCONCLUSIVE else told
