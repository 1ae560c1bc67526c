"""How measurements compare with a baseline: PASS, REGRESSED, IMPROVED, ... Pure.

The unit is the session, a fresh process: rounds of one process are not independent. A change is
the median over this run's sessions against the median over the baseline's; its interval is the
deviation of these medians times Student's quantile, with the spread that both groups show. A change
counts when it is worth it (`Metric.least`) and its interval leaves no change out. One session never
fails a run: more are measured while that is open, and until the last of them an alarm must be
beyond much doubt (Haybittle and Peto: Br. J. Cancer 34, 1976, p. 585), so that looking again and
again raises no false ones.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from math import log1p, sqrt
from statistics import median, pvariance
from typing import Final

from netpipe.device.host import host_difference, is_same_machine
from netpipe.errors import OutOfTimeError
from netpipe.gate.metrics import GATED, Metric, Scope
from netpipe.results.measurement import Interval, Measurement
from netpipe.results.statistics import median_variance

MAX_SESSIONS: Final = 5
"""Sessions after which what is open stays INCONCLUSIVE."""

DRIFT: Final = 0.10
"""What may come together in small steps, against the oldest baseline."""

_LEVEL: Final = 0.995  # of the last look, one-sided
_EARLY_LEVEL: Final = 0.9995  # of every look before it
_UNKNOWN_SPREAD: Final = 0.10  # of sessions where there are too few to tell
_LEAST_SPREAD: Final = 0.002  # of sessions that happen to agree
_FEW: Final = 3
_KNOWN: Final = 10_000  # degrees of freedom: Student's quantile is the normal one
_LEAST_LEFT: Final = 0.1  # of the host's CPU time
_SUSPICIOUS: Final = 0.5  # of the smallest change worth failing for, at which to look again


class Outcome(StrEnum):
    """How a run compares with its baseline."""

    PASS = "PASS"
    REGRESSED = "REGRESSED"
    IMPROVED = "IMPROVED"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_COMPARED = "NOT_COMPARED"
    NO_BASELINE = "NO_BASELINE"


UNJUDGED: Final = (Outcome.NOT_COMPARED, Outcome.NO_BASELINE)
"""The outcomes of a metric that was not judged."""


@dataclass(frozen=True)
class BaselineSessions:
    """The sessions of one benchmark in a baseline.

    Attributes:
        where: The baseline's name.
        sessions: What was measured; empty where the baseline has no such benchmark.
    """

    where: str
    sessions: Sequence[Measurement]


@dataclass(frozen=True)
class MetricComparison:
    """One metric against a baseline.

    Attributes:
        metric: What was compared.
        outcome: What it comes to.
        now: Its value now, the median over sessions.
        then: The baseline's median over sessions.
        worse: How much worse it is, with its interval over sessions: a factor, above 1 is worse;
            for a share the difference, above 0 is worse.
        bound: How much worse it may be.
        where: The baseline's name.
        reason: What it comes to, in one sentence.
        is_open: Another session may decide it.
        why_not: Why it is NOT_COMPARED; "" for every other outcome.
        is_comparable: Its values are of the same thing, so that `worse` says something.
        is_reported_only: It is NOT_COMPARED by design: no baseline of this device is judged by it.
        is_drift: It is against the oldest comparable baseline, not the latest.
        oldest: The name of that baseline; "" where none before the latest is comparable.
    """

    metric: Metric
    outcome: Outcome
    now: float
    then: float
    worse: Interval
    bound: float
    where: str
    reason: str
    is_open: bool = False
    why_not: str = ""
    is_comparable: bool = True
    is_reported_only: bool = False
    is_drift: bool = False
    oldest: str = ""


@dataclass(frozen=True)
class Comparison:
    """One quantity against the baseline.

    Attributes:
        outcome: What it comes to: that of its worst metric.
        metric: The metric that decided; "" without a baseline.
        now: Its value now.
        then: The baseline's median over sessions; None without a baseline.
        worse_ratio: By what factor it is worse than the baseline; above 1 is worse. For a share, 1
            and by how much of the steps. None where the two cannot be compared.
        reason: Why, in one sentence.
        every: All that was compared.
    """

    outcome: Outcome
    metric: str
    now: float
    then: float | None
    worse_ratio: float | None
    reason: str
    every: tuple[MetricComparison, ...] = ()

    @property
    def is_open(self) -> bool:
        """Whether another session may decide what these leave open."""
        proven = self.outcome is Outcome.REGRESSED
        return not proven and any(one.is_open for one in self.every)

    @property
    def open_reason(self) -> str:
        """Of the first metric that is, what it comes to so far; "" where none is."""
        return next((one.reason for one in self.every if one.is_open), "")

    @property
    def decisive(self) -> MetricComparison | None:
        """The metric that decided; None without a baseline."""
        return next(
            (
                one
                for one in self.every
                if (one.metric.name, one.outcome, one.now) == (self.metric, self.outcome, self.now)
            ),
            None,
        )

    @property
    def why_not(self) -> str:
        """Why the metric that decided is NOT_COMPARED; "" for every other outcome."""
        return self.decisive.why_not if self.decisive else ""

    @property
    def oldest(self) -> str:
        """The oldest baseline that the metric that decided was compared with; "" for none."""
        return self.decisive.oldest if self.decisive else ""

    @property
    def is_reported_only(self) -> bool:
        """Whether the metric that decided is NOT_COMPARED by design."""
        return self.decisive is not None and self.decisive.is_reported_only

    @property
    def by_metric(self) -> "tuple[Comparison, ...]":
        """Each of its metrics alone; itself without a baseline."""
        return tuple(map(combine, ((one,) for one in self.every))) or (self,)


def compare(
    quantity: str,
    now: Sequence[Measurement],
    baseline: BaselineSessions,
    earlier: Sequence[BaselineSessions] = (),
) -> Comparison:
    """Compare one quantity with a baseline, and with the oldest that is comparable.

    Args:
        quantity: A key of `GATED`.
        now: What this run's sessions measured, at least one.
        baseline: What it is held against.
        earlier: The baselines before it, the oldest first.

    Returns:
        The worst comparison of the quantity's metrics.
    """
    if not baseline.sessions:
        return no_baseline(quantity, now, f"{baseline.where} has no such benchmark")
    metrics = GATED[quantity]
    compared = [_compared(metric, now, baseline, metric.bound) for metric in metrics]
    for place, metric in enumerate(metrics):
        oldest = _oldest_comparable(metric, now[-1], earlier)
        if oldest is not None:
            compared[place] = replace(compared[place], oldest=oldest.where)
            drift = _compared(metric, now, oldest, max(DRIFT, metric.bound))
            if drift.outcome in _BAD:
                compared.append(replace(drift, is_drift=True, oldest=oldest.where))
    return combine(compared)


def _oldest_comparable(
    metric: Metric, now: Measurement, earlier: Sequence[BaselineSessions]
) -> BaselineSessions | None:
    comparable = (
        one
        for one in earlier
        if one.sessions and not why_not_comparable(metric, now, one.sessions[0])
    )
    return next(comparable, None)


def combine(compared: Sequence[MetricComparison]) -> Comparison:
    """Return what several metrics of a quantity come to."""
    worst = min(compared, key=lambda one: (_SEVERITY.index(one.outcome), one.is_reported_only))
    return Comparison(
        outcome=worst.outcome,
        metric=worst.metric.name,
        now=worst.now,
        then=worst.then,
        worse_ratio=worst.worse.median + worst.metric.is_share if worst.is_comparable else None,
        reason=worst.reason,
        every=tuple(compared),
    )


def compare_until_decided(
    quantity: str,
    now: Sequence[Measurement],
    baseline: BaselineSessions,
    earlier: Sequence[BaselineSessions],
    another: Callable[[Comparison], Measurement],
) -> tuple[Comparison, tuple[Measurement, ...]]:
    """Compare, and measure again as long as another session may decide what is open.

    Args:
        quantity: A key of `GATED`.
        now: What this run's sessions measured so far, at least one.
        baseline: What it is held against.
        earlier: The baselines before it, the oldest first.
        another: Measures once more, in a fresh process; told of what is open. Raises
            OutOfTimeError where there is no time for it.

    Returns:
        The comparison, and all sessions that it rests on.
    """
    comparison = compare(quantity, now, baseline, earlier)
    while comparison.is_open:
        try:
            now = (*now, another(comparison))
        except OutOfTimeError as error:
            return undecided(comparison, error), tuple(now)
        comparison = compare(quantity, now, baseline, earlier)
    return comparison, tuple(now)


def undecided(comparison: Comparison, error: OutOfTimeError) -> Comparison:
    """Return a comparison that there was no time to decide: what is open in it is no PASS."""
    return combine(
        [
            replace(one, outcome=Outcome.INCONCLUSIVE, reason=f"{one.reason}; {error}")
            if one.is_open
            else one
            for one in comparison.every
        ]
    )


_BAD: Final = (Outcome.REGRESSED, Outcome.INCONCLUSIVE)
_SEVERITY: Final = (*_BAD, Outcome.IMPROVED, Outcome.PASS, *UNJUDGED)


def no_baseline(quantity: str, now: Sequence[Measurement], reason: str) -> Comparison:
    """Return the comparison of what there is nothing to compare with."""
    value: Interval = getattr(now[-1], quantity)
    return Comparison(Outcome.NO_BASELINE, "", value.median, None, None, reason)


def _compared(
    metric: Metric, now: Sequence[Measurement], accepted: BaselineSessions, least: float
) -> MetricComparison:
    then = accepted.sessions
    shared = now[-1].device.shares_host_cores
    same = is_same_machine(now[-1].host, then[0].host)
    worth = metric.bound_change(shared_cores=shared, same_machine=same)
    worth = worth if metric.is_share else max(worth, log1p(least))
    worth += _explained(metric, now, then)
    change, early, last = _change(metric, now, then)
    outcome, is_open = _decided(change, early, last, worth, len(now))
    if outcome is Outcome.PASS and _is_moved_by_the_host(metric, now[-1]):
        is_open = False  # host noise alone explains this much
    told = _told(metric, change, accepted.where)
    reason = f"{told} (bound {metric.format_change(worth)})"
    if outcome is Outcome.INCONCLUSIVE:
        several = f"{len(now)} sessions are too spread to be sure"
        reason += f", but {several if len(now) > 1 else 'one session proves nothing'}"
    found = MetricComparison(
        metric=metric,
        outcome=outcome,
        now=median(metric.value(one) for one in now),
        then=median(metric.value(one) for one in then),
        worse=metric.to_factors(Interval(change, change - last, change + last, len(now))),
        bound=metric.to_factor(worth),
        where=accepted.where,
        reason=reason,
        is_open=is_open and len(now) < MAX_SESSIONS,
    )
    # What else the cores do moves such a time by more than a bound that is worth having.
    is_reported_only = shared and (metric.is_step_time or not metric.is_judged_on_shared_cores)
    return mark_if_not_comparable(found, now[-1], then[0], told if is_reported_only else "")


def mark_if_not_comparable(
    found: MetricComparison, now: Measurement, then: Measurement, reported: str
) -> MetricComparison:
    """Return a comparison; NOT_COMPARED where its metric cannot be judged between two sessions.

    Args:
        found: What the figures come to.
        now: A session of this version.
        then: A session of what it is compared with.
        reported: The figures in words, for a metric that is reported only; "" for others.
    """
    different = why_not_comparable(found.metric, now, then)
    if different:
        beside = f" with {found.where}" if found.where else ""
        reason = f"{found.metric.name} cannot be compared{beside}: {different}"
    elif reported:
        reason = f"{reported}: reported only, the device shares its cores with the loader"
    else:
        return found
    return replace(
        found,
        outcome=Outcome.NOT_COMPARED,
        reason=reason,
        is_open=False,
        why_not=different or "reported only",
        is_comparable=not different,
        is_reported_only=bool(reported),
    )


def _explained(metric: Metric, now: Sequence[Measurement], then: Sequence[Measurement]) -> float:
    """Return the change for the worse that what else the machine does explains."""
    busy_now, busy_then = (
        median(one.busy_elsewhere_fraction for one in some) for some in (now, then)
    )
    moved = _is_moved_by_the_host(metric, now[-1])
    return max(0.0, _of_busy(metric, busy_now, busy_then, moved=moved))


def host_load_change(metric: Metric, now: Measurement, then: Measurement) -> float:
    """Return the change that what else the machine did explains between two sessions."""
    moved = _is_moved_by_the_host(metric, now)
    return _of_busy(metric, now.busy_elsewhere_fraction, then.busy_elsewhere_fraction, moved=moved)


def _of_busy(metric: Metric, busy_now: float, busy_then: float, *, moved: bool) -> float:
    """Return what a host_load_change machine makes of a figure.

    Programs that take a share b of the host's CPU time leave 1 - b to what is measured. A CPU time
    over that of a reference moves little, but it does.
    """
    if not moved:
        return metric.neighbour_sensitivity * (busy_now - busy_then)
    less, more = sorted((busy_now, busy_then))
    change = log1p((more - less) / max(1 - more, _LEAST_LEFT))
    return change if busy_now >= busy_then else -change


def _is_moved_by_the_host(metric: Metric, now: Measurement) -> bool:
    return metric.is_host_time or (metric.unit == "s" and now.device.shares_host_cores)


def _change(
    metric: Metric, now: Sequence[Measurement], then: Sequence[Measurement]
) -> tuple[float, float, float]:
    """Return the change, and half its interval's width at an early and at the last look.

    The change is a difference of medians, so its deviation is that of medians, not of means.
    """
    new, old = [metric.level(one) for one in now], [metric.level(one) for one in then]
    change = median(new) - median(old)
    deviation = _spread(new, old) * sqrt(median_variance(len(new)) + median_variance(len(old)))
    freedom = len(new) + len(old) - 2 if len(old) >= _FEW else _KNOWN
    early, last = (student_quantile(level, freedom) * deviation for level in (_EARLY_LEVEL, _LEVEL))
    return change, early, last


def _spread(new: Sequence[float], old: Sequence[float]) -> float:
    """Return the standard deviation of sessions, pooled over both groups."""
    freedom = len(new) + len(old) - 2
    if len(old) < _FEW:
        return _UNKNOWN_SPREAD  # as if it were known: no more could be said of one session
    squares = len(new) * pvariance(new) + len(old) * pvariance(old)
    return max(_LEAST_SPREAD, sqrt(squares / freedom))


@cache
def student_quantile(level: float, freedom: int) -> float:
    """Return Student's quantile, one-sided."""
    from scipy.stats import t

    return float(t.ppf(level, freedom))


def _decided(
    change: float, early: float, last: float, worth: float, sessions: int
) -> tuple[Outcome, bool]:
    """Return the outcome, and whether another session may change it."""
    is_last = sessions >= MAX_SESSIONS
    proven = change > (last if is_last else early)
    if change > worth and proven and sessions > 1:
        return Outcome.REGRESSED, False
    if change > worth:
        return Outcome.INCONCLUSIVE, True
    if change < -worth and -change > last:
        return Outcome.IMPROVED, False
    return Outcome.PASS, sessions < _FEW and change > _SUSPICIOUS * worth


def _told(metric: Metric, change: float, where: str) -> str:
    beside = "against" if metric.is_share else "x that of"
    return f"{metric.name} is {metric.format_change(change)} {beside} {where}"


def why_not_comparable(metric: Metric, now: Measurement, then: Measurement) -> str:
    """Return why a metric cannot be compared between two sessions; "" where it can."""
    if now.device.key != then.device.key:
        return f"it was measured on {then.device.key}"
    if now.fingerprint != then.fingerprint:
        return "other data or another configuration"
    if metric.scope is Scope.HOST and (difference := host_difference(now.host, then.host)):
        return f"another host ({difference})"
    if metric.name == "load_cpu_ratio" and now.calibration != then.calibration:
        return f"calibrated by {then.calibration or 'another workload'}"
    return ""
