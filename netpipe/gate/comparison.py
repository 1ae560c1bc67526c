"""Compare measurements with a baseline. Pure.

The unit is the session, a fresh process, because rounds of one process are not independent. A
change is the difference between the median over this run's sessions and the median over the
baseline's. The half-width of its interval is Student's quantile times the standard error of this
difference, from the pooled spread of both groups. A metric has regressed when its change exceeds
the bound and the interval excludes what the load and the speed of the machine explain. One session
never fails a run: while the outcome is open, more sessions are measured. Every look before the last
needs a higher confidence, because repeated looks would otherwise raise false alarms (Haybittle and
Peto: Br. J. Cancer 34, 1976, p. 585).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import exp, isfinite, log, sqrt
from operator import mul
from statistics import fmean, median
from typing import Final

from netpipe.device.host import host_difference, is_same_machine
from netpipe.errors import OutOfTimeError
from netpipe.gate.metrics import GATED, LOAD, Metric
from netpipe.gate.outcomes import ALARMS, Comparison, Outcome
from netpipe.results.measurement import Interval, Measurement
from netpipe.results.statistics import median_variance

MAX_SESSIONS: Final = 5
"""An outcome that is still open after this number of sessions stays INCONCLUSIVE."""

DRIFT_BOUND: Final = 0.10
"""The largest accepted worsening relative to the oldest baseline, as a fraction."""

# One-sided confidence levels: for the last look, and for every earlier one.
_LAST_LEVEL: Final = 0.995
_EARLY_LEVEL: Final = 0.9995

# Sessions may agree by chance, so their spread is assumed to be at least this.
_MIN_SPREAD: Final = 0.002

# A baseline with fewer sessions does not show their spread, so at least this spread is assumed.
_MIN_SESSIONS_FOR_SPREAD: Final = 3
_ASSUMED_SPREAD: Final = 0.10

# With this many degrees of freedom, Student's quantile practically equals the normal one.
_NORMAL_FREEDOM: Final = 10_000

# Other programs are assumed to leave at least this fraction of the host's CPU time.
_MIN_CPU_LEFT_FRACTION: Final = 0.1

# The reference loader runs on these packages, so its CPU time tells how fast the machine is only if
# their versions are the same.
_REFERENCE_PACKAGES: Final = ("python", "numpy", "grain")

# A change above this fraction of the bound is measured again.
_RECHECK_FRACTION: Final = 0.5


@dataclass(frozen=True)
class BaselineSessions:
    """The sessions of one benchmark in a baseline; empty if the baseline lacks it."""

    name: str
    sessions: Sequence[Measurement]


def compare(
    quantity: str,
    now: Sequence[Measurement],
    baseline: BaselineSessions,
    earlier: Sequence[BaselineSessions] = (),
) -> Comparison:
    """Compare one quantity, a key of `GATED`, with a baseline and the oldest comparable baseline.

    `now` holds at least one session of this run; `earlier` starts with the oldest baseline.
    """
    if not baseline.sessions:
        reason = f"{baseline.name} has no such benchmark"
        return Comparison.without_baseline(reason, getattr(now[-1], quantity).median)
    compared: list[Comparison] = []
    drifts: list[Comparison] = []
    for metric in GATED[quantity]:
        found = _compare_metric(metric, now, baseline)
        comparable = (other for other in earlier if is_comparable(metric, now[-1], other.sessions))
        oldest = next(comparable, None)
        if oldest is not None:
            found = replace(found, oldest=oldest.name)
            drift = _compare_metric(metric, now, oldest, DRIFT_BOUND)
            if drift.outcome in ALARMS:
                drifts.append(replace(drift, is_drift=True, oldest=oldest.name))
        compared.append(found)
    return Comparison.from_metrics([*compared, *drifts])


def compare_until_decided(
    compare_all: Callable[[], Comparison],
    measure_again: Callable[[Comparison], None],
    is_waived: Callable[[Comparison], bool] = lambda _: False,
) -> Comparison:
    """Compare, and measure again while the outcome is open; INCONCLUSIVE if no time is left.

    A regression of one metric ends this unless it is waived. `measure_again` receives the
    comparison so far, and raises OutOfTimeError if there is no time for another measurement.
    """

    def is_failed(metric: Comparison) -> bool:
        return metric.outcome is Outcome.REGRESSED and not is_waived(metric)

    found = compare_all()
    while found.is_open and not any(map(is_failed, found.metrics)):
        try:
            measure_again(found)
        except OutOfTimeError as error:
            undecided = [
                replace(metric, outcome=Outcome.INCONCLUSIVE, reason=f"{metric.reason}; {error}")
                if metric.is_open
                else metric
                for metric in found.metrics
            ]
            return Comparison.from_metrics(undecided)
        found = compare_all()
    return found


def _compare_metric(
    metric: Metric, now: Sequence[Measurement], baseline: BaselineSessions, min_bound: float = 0.0
) -> Comparison:
    """Compare one metric; its bound is at least `min_bound`, a fraction."""
    then, name = baseline.sessions, baseline.name
    explained = max(0.0, host_load_change(metric, now, then))
    bound = metric.bound_change(
        shared_cores=now[-1].device.shares_host_cores,
        same_machine=is_same_machine(now[-1].host, then[0].host),
        min_bound=min_bound,
    )
    change, early, last = _estimate_change(metric, now, then)
    slower = max(0.0, _machine_speed_change(metric, now, then))
    remark = ""
    if slower and change > bound + explained:
        remark = f"; the reference loader takes {exp(slower):.2f} x the CPU time"
    explained += slower
    bound += explained
    outcome, is_open = _decide(change, early, last, bound, explained, len(now))
    if outcome is Outcome.PASS and _is_moved_by_host(metric, now[-1]):
        is_open = False  # Host noise alone explains this much; do not measure again.
    beside = "against" if metric.is_share else "x that of"
    figures = f"{metric.name} is {metric.format_change(change)} {beside} {name}"
    reason = f"{figures} (bound {metric.format_change(bound)}{remark})"
    if outcome is Outcome.INCONCLUSIVE:
        several = f"{len(now)} sessions vary too much to be sure"
        reason += f", but {several if len(now) > 1 else 'one session proves nothing'}"
    found = Comparison(
        metric=metric.name,
        outcome=outcome,
        now=median(map(metric.value, now)),
        then=median(map(metric.value, then)) if metric.is_in(then[0]) else None,
        worse=metric.to_factors(Interval(change, change - last, change + last, len(now))),
        bound=metric.to_factor(bound),
        baseline=name,
        reason=reason,
        is_open=is_open and len(now) < MAX_SESSIONS,
    )
    is_reported_only = not metric.is_judged_on(now[-1].device)
    difference = why_not_comparable(metric, now[-1], then[0])
    if not (difference or all(map(metric.is_in, (*now, *then)))):
        difference = "not every session has it"
    return mark_if_not_comparable(found, difference, figures if is_reported_only else "")


def mark_if_not_comparable(found: Comparison, difference: str, reported: str) -> Comparison:
    """Mark a comparison as NOT_COMPARED if its metric cannot be judged.

    `difference` says why the sessions cannot be compared; "" if they can. `reported` is the text of
    the figures if the metric is only reported; "" otherwise.
    """
    if difference:
        beside = f" with {found.baseline}" if found.baseline else ""
        reason = f"{found.metric} cannot be compared{beside}: {difference}"
    elif reported:
        reason = f"{reported}: reported only, the device shares its cores with the loader"
    else:
        return found
    return replace(
        found,
        outcome=Outcome.NOT_COMPARED,
        reason=reason,
        worse=None if difference else found.worse,
        is_open=False,
        is_reported_only=bool(reported),
    )


def is_comparable(metric: Metric, now: Measurement, then: Sequence[Measurement]) -> bool:
    """Return whether a metric can be compared with a baseline's sessions."""
    return bool(then) and not why_not_comparable(metric, now, then[0])


def why_not_comparable(metric: Metric, now: Measurement, then: Measurement) -> str:
    """Return why a metric cannot be compared between two sessions; "" if it can."""
    if now.device.key != then.device.key:
        return f"it was measured on {then.device.key}"
    if now.storage != then.storage:
        return f"it was measured in {then.storage or 'no stand-in for a storage'}"
    if now.fingerprint != then.fingerprint:
        return "other data or another configuration"
    if metric.depends_on_host and (difference := host_difference(now.host, then.host)):
        return f"another host ({difference})"
    if metric.name == "load_cpu_ratio" and now.calibration != then.calibration:
        return f"calibrated by {then.calibration or 'another workload'}"
    if not (metric.is_in(now) and metric.is_in(then)):
        whose = "the baseline" if metric.is_in(now) else "this run"
        return f"{whose} does not have it"
    return ""


def host_load_change(
    metric: Metric, now: Sequence[Measurement], then: Sequence[Measurement]
) -> float:
    """Return the change that a different load from other programs explains.

    If other programs take a fraction b of the host's CPU time, a wall time on the host grows by a
    factor of 1 / (1 - b). Programs come and go, so this is taken out of each round of loading if
    all sessions have the fractions of their rounds. A CPU time relative to a reference loader
    changes far less.
    """
    sides = now, then
    if not _is_moved_by_host(metric, now[-1]):
        busy_now, busy_then = (median(each.busy_elsewhere_fraction for each in of) for of in sides)
        return metric.neighbour_sensitivity * (busy_now - busy_then)
    rounds_of = [each.rounds for each in (*now, *then)]
    has_rounds = all(each.load_s_per_batch and each.busy_elsewhere_fraction for each in rounds_of)
    is_by_round = metric is LOAD and has_rounds

    def explained(session: Measurement) -> float:
        if not is_by_round:
            return -log(_cpu_left(session.busy_elsewhere_fraction))
        rounds = session.rounds
        left = map(_cpu_left, rounds.busy_elsewhere_fraction)
        alone_s = map(mul, rounds.load_s_per_batch, left)
        return log(median(rounds.load_s_per_batch) / median(alone_s))

    return median(map(explained, now)) - median(map(explained, then))


def _cpu_left(busy_elsewhere_fraction: float) -> float:
    return max(1 - busy_elsewhere_fraction, _MIN_CPU_LEFT_FRACTION)


def _machine_speed_change(
    metric: Metric, now: Sequence[Measurement], then: Sequence[Measurement]
) -> float:
    """Return the change of a wall time that another speed of the CPU explains.

    The CPU time of the reference loader's batches tells the speed. The change is 0 on one and the
    same machine, or if the reference loaders or their packages differ.
    """
    new, old = now[-1], then[0]
    packages = [[each.versions.get(name) for name in _REFERENCE_PACKAGES] for each in (new, old)]
    is_like = new.calibration == old.calibration and packages[0] == packages[1]
    if is_same_machine(new.host, old.host) or not (is_like and _is_moved_by_host(metric, new)):
        return 0.0
    medians_s = []
    for sessions in (now, then):
        turns = [turn.reference_cpu_s_per_batch for each in sessions for turn in each.turns]
        medians_s.append(median(turns) if turns else 0.0)
    return log(medians_s[0] / medians_s[1]) if all(medians_s) else 0.0


def _is_moved_by_host(metric: Metric, now: Measurement) -> bool:
    return metric.is_host_time or (metric.unit == "s" and now.device.shares_host_cores)


def _estimate_change(
    metric: Metric, now: Sequence[Measurement], then: Sequence[Measurement]
) -> tuple[float, float, float]:
    """Return the change, and the half-widths of its interval at an early and at the last look.

    The change is a difference of medians, so its standard error is computed for medians, not means.
    """
    new, old = list(map(metric.level, now)), list(map(metric.level, then))
    freedom = len(new) + len(old) - 2
    if len(old) < _MIN_SESSIONS_FOR_SPREAD:
        squares = sum((level - fmean(new)) ** 2 for level in new)
        spread = max(_ASSUMED_SPREAD, sqrt(squares / max(1, len(new) - 1)))
        freedom = _NORMAL_FREEDOM
    else:
        squares = sum((level - fmean(side)) ** 2 for side in (new, old) for level in side)
        spread = max(_MIN_SPREAD, sqrt(squares / freedom))
    deviation = spread * sqrt(median_variance(len(new)) + median_variance(len(old)))
    early = student_quantile(_EARLY_LEVEL, freedom) * deviation
    last = student_quantile(_LAST_LEVEL, freedom) * deviation
    return median(new) - median(old), early, last


@cache
def student_quantile(level: float, freedom: int) -> float:
    """Return the one-sided quantile of Student's t distribution."""
    from scipy.stats import t

    return float(t.ppf(level, freedom))


def _decide(
    change: float, early: float, last: float, bound: float, explained: float, sessions: int
) -> tuple[Outcome, bool]:
    """Return the outcome, and whether another session may change it.

    `explained` is the part of the bound that the load and the speed of the machine explain.
    """
    if not isfinite(change + last):  # NaN is neither above nor below a bound
        return Outcome.INCONCLUSIVE, False
    if change > bound:
        half_width = last if sessions >= MAX_SESSIONS else early
        is_proven = sessions > 1 and change - explained > half_width
        return (Outcome.REGRESSED, False) if is_proven else (Outcome.INCONCLUSIVE, True)
    if change < -bound and -change > last:
        return Outcome.IMPROVED, False
    is_suspicious = sessions < _MIN_SESSIONS_FOR_SPREAD and change > _RECHECK_FRACTION * bound
    return Outcome.PASS, is_suspicious
