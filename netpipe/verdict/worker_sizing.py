"""Compute how many workers and cores keep a step fed. Pure."""

from math import ceil
from statistics import median

from netpipe.results.measurement import Measurement
from netpipe.verdict.quantities import own_step_s

# If workers are busy for a larger fraction of their time, irregular batch times stall the step.
_MAX_WORKER_USE = 0.8
# If the cores are busy for a smaller fraction of their time, workers wait for something else.
_CORES_SATURATED_ABOVE = 0.8
# The plugin's findings on a verdict that a second session did not confirm.
_DOUBTS = ("verdict-not-confirmed", "not-repeated")


def workers_needed(measurement: Measurement) -> int | None:
    """Return how many workers keep up with the step; None if that exceeds the cores.

    By Little's law, the number of batches in progress is the rate, 1 / S3, times the time for which
    one batch occupies a worker. That time is L x workers, including waits for storage. If there are
    more workers than cores and the cores are saturated, workers wait for cores; the time is then
    the CPU time of a batch.
    """
    workers, cores = max(1, measurement.loader_processes), measurement.host.cores
    load_s, cpu_s = measurement.load_s_per_batch.median, load_cpu_s_per_batch(measurement)
    occupied_s = workers * load_s
    if cpu_s is not None and workers > cores and cpu_s / load_s >= _CORES_SATURATED_ABOVE * cores:
        occupied_s = cpu_s
    needed = enough_workers(occupied_s, own_step_s(measurement))
    return needed if needed <= cores else None


def advise_workers(measurement: Measurement) -> str:
    """Return advice on the number of workers for a slow loader; "" if there is none."""
    has, needed = measurement.loader_processes, workers_needed(measurement)
    numbers = [str(needed)] if needed is not None and needed > has else []
    numbers += [f"fewer than {has}"] * (has > 1) + ["none"] * (has > 0)
    if not numbers or any(finding.name in _DOUBTS for finding in measurement.findings):
        return ""
    return f"try another number of workers: {' or '.join(numbers)} (has {has})"


def enough_workers(occupied_s: float, step_s: float) -> int:
    """Return how many workers keep a step fed if a batch occupies one for `occupied_s`."""
    return max(1, ceil(occupied_s / (_MAX_WORKER_USE * step_s)))


def cores_needed(measurement: Measurement) -> float | None:
    """Return how many cores loading keeps busy at one batch a step; None if not measured."""
    cpu_s = load_cpu_s_per_batch(measurement)
    return None if cpu_s is None else cpu_s / own_step_s(measurement)


def load_cpu_s_per_batch(measurement: Measurement) -> float | None:
    """Return the CPU seconds per batch in all processes; None if not measured."""
    rounds_s = measurement.rounds.load_cpu_s_per_batch
    return median(rounds_s) if rounds_s else None
