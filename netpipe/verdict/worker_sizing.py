"""Compute how many workers and cores keep a step fed. Pure."""

from math import ceil
from statistics import median

from netpipe.results.measurement import Measurement

# If workers are busy for a larger fraction of their time, irregular batch times stall the step.
_MAX_WORKER_USE = 0.8
# If the cores are busy for a smaller fraction of their time, workers wait for something else.
_CORES_SATURATED_ABOVE = 0.8


def workers_needed(measurement: Measurement) -> int:
    """Return the number of worker processes that a loader needs to keep up with the step.

    By Little's law, the number of batches in progress is the rate, 1 / S0, times the time for which
    one batch occupies a worker. That time is L x workers, including waits for storage. If there are
    more workers than cores and the cores are saturated, workers wait for cores; the time is then
    the CPU time of a batch.
    """
    workers, cores = max(1, measurement.loader_processes), measurement.host.cores
    load_s, cpu_s = measurement.load_s_per_batch.median, load_cpu_s_per_batch(measurement)
    occupied_s = workers * load_s
    if cpu_s is not None and workers > cores and cpu_s / load_s >= _CORES_SATURATED_ABOVE * cores:
        occupied_s = cpu_s
    return enough_workers(occupied_s, measurement.step_s.median)


def enough_workers(occupied_s: float, step_s: float) -> int:
    """Return how many workers keep a step fed if a batch occupies one for `occupied_s`."""
    return max(1, ceil(occupied_s / (_MAX_WORKER_USE * step_s)))


def cores_needed(measurement: Measurement) -> float | None:
    """Return how many cores loading keeps busy at one batch a step; None if not measured."""
    cpu_s = load_cpu_s_per_batch(measurement)
    return None if cpu_s is None else cpu_s / measurement.step_s.median


def load_cpu_s_per_batch(measurement: Measurement) -> float | None:
    """Return the CPU seconds per batch in all processes; None if not measured."""
    rounds_s = measurement.rounds.load_cpu_s_per_batch
    return median(rounds_s) if rounds_s else None
