"""How many workers and cores would keep a step of this time fed. Pure."""

from math import ceil
from statistics import median

from netpipe.results.measurement import Measurement

_USE = 0.8  # of each worker's time; above, irregular batch times stall the step
_USED_UP = 0.8  # of the cores' time; below, whatever workers wait for, it is not a core


def workers_needed(measurement: Measurement) -> int:
    """Return the worker processes that a loader needs to keep up with the step.

    Little's law: the batches in the making are the rate, 1 / S0, times the time that one occupies
    a worker. That time is L x workers, their waits for storage in it; but where more workers than
    cores use the cores up, they wait for cores, and it is the CPU time of a batch.
    """
    workers = max(1, measurement.loader_processes)
    occupied_s = workers * measurement.load_s_per_batch.median
    cpu_s = load_cpu_s_per_batch(measurement)
    if cpu_s is not None and _waits_for_cores(measurement, cpu_s):
        occupied_s = cpu_s
    return enough_workers(occupied_s, measurement.step_s.median)


def enough_workers(occupied_s: float, step_s: float) -> int:
    """Return the workers that keep a step fed, by Little's law.

    Args:
        occupied_s: Seconds that a batch occupies a worker.
        step_s: Seconds of a step.
    """
    return max(1, ceil(occupied_s / (_USE * step_s)))


def _waits_for_cores(measurement: Measurement, cpu_s: float) -> bool:
    cores = measurement.host.cores
    used_cores = cpu_s / measurement.load_s_per_batch.median
    return measurement.loader_processes > cores and used_cores >= _USED_UP * cores


def cores_needed(measurement: Measurement) -> float | None:
    """Return the cores that loading keeps busy at one batch a step; None when not measured."""
    cpu_s = load_cpu_s_per_batch(measurement)
    return None if cpu_s is None else cpu_s / measurement.step_s.median


def load_cpu_s_per_batch(measurement: Measurement) -> float | None:
    """Return the CPU seconds of a batch, all processes; None when not measured."""
    rounds_s = measurement.rounds.load_cpu_s_per_batch
    return median(rounds_s) if rounds_s else None
