"""How many workers and cores would keep a step of this time fed. Pure."""

from math import ceil
from statistics import median

from netpipe.results.measurement import Measurement

# Of each worker's time; above, irregular batch times stall the step.
_MAX_WORKER_USE = 0.8
# Of the cores' time; below, workers wait for something else than a core.
_CORES_SATURATED_ABOVE = 0.8


def workers_needed(measurement: Measurement) -> int:
    """Return the worker processes that a loader needs to keep up with the step.

    By Little's law, the batches being made are the rate, 1 / S0, times the time that one batch
    occupies a worker. That time is L x workers, waits for storage included. Where more workers
    than cores saturate the cores, workers wait for cores, and it is the CPU time of a batch.
    """
    workers, cores = max(1, measurement.loader_processes), measurement.host.cores
    load_s, cpu_s = measurement.load_s_per_batch.median, load_cpu_s_per_batch(measurement)
    occupied_s = workers * load_s
    if cpu_s is not None and workers > cores and cpu_s / load_s >= _CORES_SATURATED_ABOVE * cores:
        occupied_s = cpu_s
    return enough_workers(occupied_s, measurement.step_s.median)


def enough_workers(occupied_s: float, step_s: float) -> int:
    """Return the workers that keep a step fed, where a batch occupies one for `occupied_s`."""
    return max(1, ceil(occupied_s / (_MAX_WORKER_USE * step_s)))


def cores_needed(measurement: Measurement) -> float | None:
    """Return the cores that loading keeps busy at one batch a step; None when not measured."""
    cpu_s = load_cpu_s_per_batch(measurement)
    return None if cpu_s is None else cpu_s / measurement.step_s.median


def load_cpu_s_per_batch(measurement: Measurement) -> float | None:
    """Return the CPU seconds of a batch, all processes; None when not measured."""
    rounds_s = measurement.rounds.load_cpu_s_per_batch
    return median(rounds_s) if rounds_s else None
