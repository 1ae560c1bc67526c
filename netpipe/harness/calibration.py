"""A fixed small workload, timed next to every round to take the machine's speed out of a figure."""

import time
from statistics import median

import numpy as np

_REPEATS = 3
_LOOPS = 100_000
_VALUES = np.arange(300_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


def workload_cpu_s() -> float:
    """Return the CPU seconds of the workload: the median of three runs of some ten milliseconds.

    Half of it is interpreted Python, half NumPy over memory, as input pipelines are.
    """
    return median(_one_run_s() for _ in range(_REPEATS))


def _one_run_s() -> float:
    started = time.thread_time()
    total = 0
    for value in range(_LOOPS):
        total += value & 7
    ordered = np.sort(_VALUES)
    np.cumsum(ordered >> np.uint64(3), out=ordered)
    return time.thread_time() - started
