"""The quantities that verdicts are based on: ratios within rounds, and differences. Pure.

L is load time, S0 step time, S3 step time on the loader's batches (S0 if not measured), R real
step time, H the loop's own work per step, M the larger of L and S3, m the smaller, and E = R - M
the time that neither loading nor computing explains.
"""

from collections.abc import Sequence
from operator import sub
from statistics import median

from netpipe.results import statistics
from netpipe.results.measurement import Interval, Measurement
from netpipe.results.units import format_ratio_interval, format_seconds_interval

# The smallest stall that counts: xprof and torch-tb-profiler call 5% moderate.
EPSILON = 0.05
# If load time over step time exceeds this, a slightly faster accelerator would wait.
AT_RISK_ABOVE = 0.8


def load_over_step(measurement: Measurement) -> Interval:
    """Return L / S3, round by round."""
    rounds = measurement.rounds
    return statistics.ratio_interval(rounds.load_s_per_batch, rounds.own_step_s)


def train_over_larger(measurement: Measurement) -> Interval:
    """Return R / M, round by round."""
    rounds = measurement.rounds
    larger_s = list(map(max, rounds.load_s_per_batch, rounds.own_step_s))
    return statistics.ratio_interval(rounds.train_s_per_step, larger_s)


def excess_probe(measurement: Measurement) -> float:
    """Return the share of requests that find the step done, minus the share without a loop."""
    return measurement.sync_probe_fraction - measurement.sync_probe_idle_fraction


def excess_s(measurement: Measurement) -> float:
    """Return E = R - M in seconds."""
    load_s = measurement.load_s_per_batch.median
    return measurement.train_s_per_step.median - max(load_s, own_step_s(measurement))


def exposed_time(measurement: Measurement) -> tuple[Interval, float] | None:
    """Return the time that a loop without syncs would save: a share of R, and seconds per step.

    The saving is at most S0, and at most R - L, because requests to a slow loader also find the
    step done. The share that finds it done without a loop is excluded. None if not measured.
    """
    rounds, probe = measurement.rounds, measurement.sync_probe_fraction
    by_sync = max(0.0, excess_probe(measurement)) / probe if probe else 0.0
    # Older documents have no exposed times.
    if not rounds.exposed_s_per_step:
        return None
    beside_loading_s = map(sub, rounds.train_s_per_step, rounds.load_s_per_batch)
    most_s = map(min, rounds.exposed_s_per_step, rounds.own_step_s, beside_loading_s)
    saved_s = [by_sync * max(0.0, seconds) for seconds in most_s]
    return statistics.ratio_interval(saved_s, rounds.train_s_per_step), median(saved_s)


def smaller_s(measurement: Measurement) -> float:
    """Return m in seconds."""
    return min(measurement.load_s_per_batch.median, own_step_s(measurement))


def own_step_s(measurement: Measurement) -> float:
    """Return S3 in seconds."""
    return (measurement.step_loaded_s or measurement.step_s).median


def over_step(seconds: Sequence[float], measurement: Measurement) -> Interval | None:
    """Return the ratio of a step's times to S0, round by round; None if they are not measured."""
    return statistics.ratio_interval(seconds, measurement.rounds.step_s) if seconds else None


def seems_to_stall(measurement: Measurement) -> bool:
    """Return whether the median of R is longer than loading and computing explain."""
    return train_over_larger(measurement).median > 1 + EPSILON


def certainly_stalls(measurement: Measurement) -> bool:
    """Return whether the whole interval of R is longer than loading and computing explain."""
    return train_over_larger(measurement).low > 1 + EPSILON


def is_serial(measurement: Measurement) -> bool:
    """Return whether loading and computing take turns more than they overlap."""
    return excess_s(measurement) >= 0.5 * smaller_s(measurement)


def host_s(measurement: Measurement) -> float:
    """Return H in seconds; 0 if it was not measured."""
    host = measurement.host_s_per_step
    return 0.0 if host is None else host.median


def list_evidence(measurement: Measurement) -> tuple[str, ...]:
    """Return the evidence that every verdict includes, as text."""
    own_s = measurement.step_loaded_s
    own = (
        [] if own_s is None else [f"S3 = {format_seconds_interval(own_s)} on the loader's batches"]
    )
    return (
        f"L = {format_seconds_interval(measurement.load_s_per_batch)} a batch",
        f"S0 = {format_seconds_interval(measurement.step_s)} a step",
        *own,
        f"R = {format_seconds_interval(measurement.train_s_per_step)} a step",
        f"headroom S0/L = {format_ratio_interval(measurement.headroom)}",
        f"stall fraction = {format_ratio_interval(measurement.stall_fraction)}",
    )
