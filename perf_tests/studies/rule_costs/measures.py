"""Measures of a running pipeline in a fresh process: speed, memory, start-up, contents."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from statistics import fmean
from typing import Any, Final

import psutil

from netpipe.jobs.processes import ProcessTree
from perf_tests.studies.rule_costs.examples import Example, Setting

# The batches whose contents are compared.
BATCHES: Final = 50
CRASH_BATCHES: Final = 5
_WARM_UP_S: Final = 0.5
_WINDOW_S: Final = 1.5
_SLOW_STEP_S: Final = 0.05
_STEPS_PER_MEMORY_READING: Final = 10
# Below this growth from one reading to the next, the buffers are full.
_GROWTH_RATIO: Final = 1.01

# Arrays whose first axis is the batch.
Batch = Mapping[str, Any]


@dataclass(frozen=True)
class Observation:
    """The observation of one run of an example.

    Attributes:
        values: The measured values by name, which says the unit.
        error: The exception raised instead of a batch; "" if none.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    error: str = ""


Measure = Callable[[Example, Setting], Observation]


def measure_speed(example: Example, setting: Setting) -> Observation:
    """Pull batches as fast as possible: elements/s, seconds to the first one, bytes of memory."""
    batches, first_batch_s = _start(example, setting)
    _pull_per_s(batches, _WARM_UP_S)
    elements_per_s = _pull_per_s(batches, _WINDOW_S)
    workers = [_pss_bytes(pid) for pid in ProcessTree().worker_pids]
    return Observation(
        {
            "elements_per_s": elements_per_s,
            "first_batch_s": first_batch_s,
            "bytes_per_worker": fmean(workers) if workers else 0.0,
            "bytes_of_workers": float(sum(workers)),
        }
    )


def measure_training(example: Example, setting: Setting) -> Observation:
    """Take steps that last as long as loading a batch: steps/s."""
    batches, _ = _start(example, setting)
    steps, started = 0, time.perf_counter()
    while (elapsed_s := time.perf_counter() - started) < _WINDOW_S:
        time.sleep(setting.step_s)
        next(batches)
        steps += 1
    return Observation({"steps_per_s": steps / elapsed_s})


def measure_buffers(example: Example, setting: Setting) -> Observation:
    """Take slow steps until the buffers are full: bytes of all processes."""
    batches, _ = _start(example, setting)
    before, now = 0.0, _bytes_of_all()
    while now > _GROWTH_RATIO * before:
        for _ in range(_STEPS_PER_MEMORY_READING):
            time.sleep(_SLOW_STEP_S)
            next(batches)
        before, now = now, _bytes_of_all()
    return Observation({"bytes_of_all": now})


def count_batches_before_crash(example: Example, setting: Setting) -> Observation:
    """Pull a few batches: their number, and the exception."""
    batches = 0
    try:
        for _ in islice(iter(example.loader(setting)()), CRASH_BATCHES):
            batches += 1
    except Exception as error:  # noqa: BLE001  # any exception is the observation
        return Observation({"batches": float(batches)}, _summarize(error))
    return Observation({"batches": float(batches)})


def count_delivered_elements(example: Example, setting: Setting) -> Observation:
    """Count the elements of one epoch that reach the trainer."""
    elements = sum(_size(batch) for batch in example.loader(setting)())
    return Observation({"elements": float(elements)})


def count_worker_dependent_batches(example: Example, setting: Setting) -> Observation:
    """Count the batches that differ between 1 and 2 workers."""
    alone, shared = (_contents(example, replace(setting, workers=number)) for number in (1, 2))
    differ = sum(a != b for a, b in zip(alone, shared, strict=True))
    return Observation({"batches": float(differ)})


def count_neighbours(example: Example, setting: Setting) -> Observation:
    """Return the mean number of elements per batch whose neighbour is in the same batch."""
    contents = [set(batch) for batch in _contents(example, setting)]
    counts = [sum(bool({row - 1, row + 1} & batch) for row in batch) for batch in contents]
    return Observation({"elements": fmean(counts)})


def count_distinct_elements(example: Example, setting: Setting) -> Observation:
    """Count the distinct elements within one data set's length."""
    batches = _contents(example, setting, setting.rows // setting.batch)
    return Observation({"elements": float(len(set().union(*batches)))})


def count_one_sided_batches(example: Example, setting: Setting) -> Observation:
    """Count the batches whose elements all lie in the same half of the data set."""
    halves = [{row * 2 // setting.rows for row in batch} for batch in _contents(example, setting)]
    return Observation({"batches": float(sum(len(half) == 1 for half in halves))})


def _start(example: Example, setting: Setting) -> tuple[Iterator[Batch], float]:
    """Start a pipeline; return its batches and the seconds to the first one."""
    loader = example.loader(setting)
    started = time.perf_counter()
    batches = iter(loader())
    next(batches)
    return batches, time.perf_counter() - started


def _pull_per_s(batches: Iterator[Batch], enough_s: float) -> float:
    elements, started = 0, time.perf_counter()
    while (elapsed_s := time.perf_counter() - started) < enough_s:
        elements += _size(next(batches))
    return elements / elapsed_s


def _size(batch: Batch) -> int:
    return len(batch["a"])


def _contents(example: Example, setting: Setting, batches: int = BATCHES) -> list[tuple[int, ...]]:
    """Return the row numbers of the first batches."""
    taken = islice(iter(example.loader(setting)()), batches)
    return [tuple(batch["a"][:, 0].tolist()) for batch in taken]


def _bytes_of_all() -> float:
    own = psutil.Process().pid
    return float(sum(_pss_bytes(pid) for pid in (own, *ProcessTree().worker_pids)))


def _pss_bytes(pid: int) -> int:
    """Return the proportional set size of a process."""
    return int(psutil.Process(pid).memory_full_info().pss)


def _summarize(error: BaseException) -> str:
    """Return an exception's type and the first line of its message."""
    first_line, _, _ = str(error).strip().partition("\n")
    return f"{type(error).__name__}: {first_line.rstrip('.')}"
