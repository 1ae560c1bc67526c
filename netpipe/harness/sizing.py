"""How many workers and cores would keep a step of this time fed. Pure."""

from math import ceil
from statistics import median

from netpipe.harness.measurement import Measurement

_USE = 0.8  # of each worker's time; above, irregular batch times stall the step


def workers_needed(measurement: Measurement) -> int:
    """Return the worker processes that a loader needs to keep up with the step.

    Little's law: the batches in the making are the rate, 1 / S0, times the time that one occupies
    a worker. With as many cores as workers that time is L x workers; with fewer, workers wait for
    cores, and it is the CPU time of a batch.
    """
    workers = max(1, measurement.loader_processes)
    occupied_s = workers * measurement.load_s_per_batch.median
    cpu_s = load_cpu_s_per_batch(measurement)
    if measurement.loader_processes > measurement.host.cores and cpu_s is not None:
        occupied_s = cpu_s
    return max(1, ceil(occupied_s / (_USE * measurement.step_s.median)))


def cores_needed(measurement: Measurement) -> float | None:
    """Return the cores that loading keeps busy at one batch a step; None when not measured."""
    cpu_s = load_cpu_s_per_batch(measurement)
    return None if cpu_s is None else cpu_s / measurement.step_s.median


def load_cpu_s_per_batch(measurement: Measurement) -> float | None:
    """Return the CPU seconds of a batch, all processes; None when not measured."""
    rounds_s = measurement.rounds.load_cpu_s_per_batch
    return median(rounds_s) if rounds_s else None
