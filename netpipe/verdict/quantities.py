"""What verdicts are decided from: ratios within rounds, and what is left over. Pure.

Words: L is load time, S0 step time, R real step time, H the loop's own work a step, M the larger
of L and S0, m the smaller, E = R - M what neither loading nor computing explains.
"""

from statistics import median

from netpipe.results import statistics
from netpipe.results.measurement import Interval, Measurement
from netpipe.results.units import format_ratio_interval, format_seconds_interval

EPSILON = 0.05  # a stall worth naming; xprof and torch-tb-profiler call 5% moderate
AT_RISK_ABOVE = 0.8  # of the step time, load time leaves too little to spare


def load_over_step(measurement: Measurement) -> Interval:
    """Return L / S0, round by round."""
    rounds = measurement.rounds
    return statistics.ratio_interval(rounds.load_s_per_batch, rounds.step_s)


def train_over_larger(measurement: Measurement) -> Interval:
    """Return R / M, round by round."""
    rounds = measurement.rounds
    larger = [
        max(load, step) for load, step in zip(rounds.load_s_per_batch, rounds.step_s, strict=True)
    ]
    return statistics.ratio_interval(rounds.train_s_per_step, larger)


def train_over_load(measurement: Measurement) -> Interval:
    """Return R / L, round by round."""
    rounds = measurement.rounds
    return statistics.ratio_interval(rounds.train_s_per_step, rounds.load_s_per_batch)


def excess_probe(measurement: Measurement) -> float:
    """Return how often the loop waits for a step, beyond what the probe sees without a loop."""
    return measurement.sync_probe_fraction - measurement.sync_probe_idle_fraction


def excess_s(measurement: Measurement) -> float:
    """Return E = R - M in seconds."""
    return measurement.train_s_per_step.median - max(
        measurement.load_s_per_batch.median, measurement.step_s.median
    )


def exposed_fraction(measurement: Measurement) -> Interval | None:
    """Return the share of R that a sync costs, round by round; None when not measured."""
    rounds_s = _exposed_s(measurement)
    if not rounds_s:
        return None
    return statistics.ratio_interval(rounds_s, measurement.rounds.train_s_per_step)


def exposed_s(measurement: Measurement) -> float:
    """Return the seconds of a step that a sync costs, 0 when not measured."""
    rounds_s = _exposed_s(measurement)
    return median(rounds_s) if rounds_s else 0.0


def _exposed_s(measurement: Measurement) -> list[float]:
    """Return what the loop would save without its sync.

    That is no more than the step itself, nor than what R has beyond L: a slow loader also finds
    the step done. Nor do requests count that find a step done without any loop.
    """
    rounds, probe = measurement.rounds, measurement.sync_probe_fraction
    by_sync = max(0.0, excess_probe(measurement)) / probe if probe else 0.0
    return [
        by_sync * max(0.0, min(exposed_s, step_s, train_s - load_s))
        for exposed_s, step_s, train_s, load_s in zip(
            rounds.exposed_s_per_step,
            rounds.step_s,
            rounds.train_s_per_step,
            rounds.load_s_per_batch,
            strict=False,
        )
    ]


def smaller_s(measurement: Measurement) -> float:
    """Return m in seconds."""
    return min(measurement.load_s_per_batch.median, measurement.step_s.median)


def stalls(measurement: Measurement) -> bool:
    """Return whether R seems longer than what loading and computing explain."""
    return train_over_larger(measurement).median > 1 + EPSILON


def stalls_beyond_both(measurement: Measurement) -> bool:
    """Return whether R is surely longer than both loading and computing explain."""
    return train_over_larger(measurement).low > 1 + EPSILON


def is_serial(measurement: Measurement) -> bool:
    """Return whether loading and computing take turns more than they overlap."""
    return excess_s(measurement) >= 0.5 * smaller_s(measurement)


def host_s(measurement: Measurement) -> float:
    """Return H, 0 when it was not measured."""
    host = measurement.host_s_per_step
    return 0.0 if host is None else host.median


def evidence(measurement: Measurement) -> tuple[str, ...]:
    """Return the figures that every verdict rests on, as text."""
    return (
        f"L = {format_seconds_interval(measurement.load_s_per_batch)} a batch",
        f"S0 = {format_seconds_interval(measurement.step_s)} a step",
        f"R = {format_seconds_interval(measurement.train_s_per_step)} a step",
        f"headroom S0/L = {format_ratio_interval(measurement.headroom)}",
        f"stall fraction = {format_ratio_interval(measurement.stall_fraction)}",
    )
