"""How a Measurement compares with a Baseline: PASS, REGRESSED, IMPROVED, ... Pure.

Every metric declares its direction and how far it may move. What a machine's load cannot change
(CPU time over calibration) is held tightly; wall times loosely, and only on the same host class.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf
from statistics import median
from typing import Final

from netpipe.harness.host import host_class
from netpipe.harness.measurement import Interval, Measurement


class Outcome(StrEnum):
    """How a run compares with its baseline."""

    PASS = "PASS"
    REGRESSED = "REGRESSED"
    IMPROVED = "IMPROVED"
    INCONCLUSIVE = "INCONCLUSIVE"
    NO_BASELINE = "NO_BASELINE"


@dataclass(frozen=True)
class Metric:
    """A figure that is held against the baseline.

    Attributes:
        name: The Measurement's field.
        lower_is_better: Its direction.
        tolerance: How far it may move, as a fraction of the baseline, before it is named.
        steady: What else the machine does hardly moves it.
        portable: It may be compared between hosts of different classes.
    """

    name: str
    lower_is_better: bool
    tolerance: float
    steady: bool = False
    portable: bool = False


_LOAD_CPU: Final = Metric("load_cpu_ratio", lower_is_better=True, tolerance=0.10, steady=True)
_LOAD: Final = Metric("load_s_per_batch", lower_is_better=True, tolerance=0.30)
_STEP: Final = Metric("step_s", lower_is_better=True, tolerance=0.30)
_TRAIN: Final = Metric("train_s_per_step", lower_is_better=True, tolerance=0.30)
_UTILISATION: Final = Metric(
    "accelerator_utilisation", lower_is_better=False, tolerance=0.05, portable=True
)

_CPU_FACTOR: Final = 3.0  # what a busy machine alone does not do to the times of a CPU device

GATED: Final = {
    "load_s_per_batch": (_LOAD_CPU, _LOAD),
    "step_s": (_STEP,),
    "train_s_per_step": (_UTILISATION, _TRAIN),
}
"""The metrics that decide on each quantity, the most telling first."""


@dataclass(frozen=True)
class Comparison:
    """One quantity against the baseline.

    Attributes:
        outcome: What it comes to.
        metric: The metric that decided; "" without a baseline.
        now: Its value now.
        then: The baseline's median over sessions; None without a baseline.
        worse_ratio: By what factor it is worse than the baseline; above 1 is worse.
        reason: Why, in one sentence.
    """

    outcome: Outcome
    metric: str
    now: float
    then: float | None
    worse_ratio: float | None
    reason: str


def compare(
    quantity: str, now: Measurement, sessions: Sequence[Measurement], where: str = "the baseline"
) -> Comparison:
    """Compare one quantity with the sessions of a baseline.

    Args:
        quantity: A key of `GATED`.
        now: What was measured.
        sessions: What the baseline holds for the same benchmark; empty without a baseline.
        where: The baseline's name, for the reason.

    Returns:
        The worst comparison of the quantity's metrics.
    """
    value: Interval = getattr(now, quantity)
    if not sessions:
        return _nothing(value, f"{where} has no such benchmark")
    if sessions[0].fingerprint != now.fingerprint:
        return _nothing(value, f"{where} was recorded with other data or another configuration")
    compared = [_compare(metric, now, sessions) for metric in GATED[quantity]]
    return min(compared, key=lambda one: _SEVERITY.index(one.outcome))


_SEVERITY: Final = (
    Outcome.REGRESSED,
    Outcome.INCONCLUSIVE,
    Outcome.IMPROVED,
    Outcome.PASS,
    Outcome.NO_BASELINE,
)


def _nothing(value: Interval, reason: str) -> Comparison:
    return Comparison(Outcome.NO_BASELINE, "", value.median, None, None, reason)


def _compare(metric: Metric, now: Measurement, sessions: Sequence[Measurement]) -> Comparison:
    value: Interval = getattr(now, metric.name)
    medians = [getattr(one, metric.name).median for one in sessions]
    then = median(medians)
    worse = _worse(metric, value, then)
    tolerance = max(metric.tolerance, _spread(medians))
    outcome, reason = _decide(metric, worse, tolerance, now, sessions[0])
    return Comparison(outcome, metric.name, value.median, then, worse.median, reason)


def _worse(metric: Metric, value: Interval, then: float) -> Interval:
    """Return by what factor the value is worse than `then`, whatever its direction."""
    if metric.lower_is_better:
        return Interval(value.median / then, value.low / then, value.high / then, value.n)
    # The interval of a few rounds may reach below 0, where no figure is.
    high = then / value.low if value.low > 0 else inf
    return Interval(then / value.median, then / value.high, high, value.n)


def _spread(medians: Sequence[float]) -> float:
    """Return how far the baseline's own sessions lie from their median at most, as a fraction."""
    middle = median(medians)
    return max(abs(one / middle - 1) for one in medians)


def _decide(
    metric: Metric, worse: Interval, tolerance: float, now: Measurement, then: Measurement
) -> tuple[Outcome, str]:
    bound = f"bound {1 + tolerance:.2f}"
    what = f"{metric.name} is {worse.median:.2f} x the baseline's ({bound})"
    if not metric.portable and host_class(now.host) != host_class(then.host):
        return Outcome.PASS, f"{what}, on another host: not compared"
    if worse.low > 1 + tolerance:
        shared = now.device.shares_host_cores and not metric.steady
        if shared and worse.low <= _CPU_FACTOR:
            return Outcome.INCONCLUSIVE, f"{what}; what shares its cores is no proof so far"
        return Outcome.REGRESSED, what
    if worse.median > 1 + tolerance:
        return Outcome.INCONCLUSIVE, f"{what}, but the rounds are too spread to be sure"
    if worse.high < 1 / (1 + tolerance) and metric.steady:
        return Outcome.IMPROVED, what
    return Outcome.PASS, what
