"""A block of batches, timed: flat out, as a trainer pulls, or a whole epoch of short data."""

from collections.abc import Callable, Generator
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any, Final

from netpipe.clock import Clock
from netpipe.errors import MisuseError
from netpipe.linting.experiments.batch_digest import element_count
from netpipe.linting.experiments.variants import open_iterator
from netpipe.measuring.loader_puller import LoaderFactory, Puller, close_with_timeout
from netpipe.session.heartbeat import UNWATCHED, Watch
from netpipe.session.processes import ProcessTree

# A part of each block is pulled before it: batches that workers made ahead come in no time.
_WARM_UP_SHARE: Final = 0.3
_MIN_STEPS: Final = 4
_END: Final = object()


@dataclass(frozen=True)
class ElementBlock:
    """What pulling for a while took, per element: a fix may change the size of the batches.

    Attributes:
        s_per_element: Wall seconds, the trainer's steps included.
        cpu_s_per_element: CPU seconds of all processes.
        elements_per_batch: The average.
        load_s_per_batch: The median seconds that a batch was waited for.
        ended: Whether the data came to their end.
    """

    s_per_element: float
    cpu_s_per_element: float
    elements_per_batch: float
    load_s_per_batch: float = 0.0
    ended: bool = False


@dataclass(frozen=True)
class Pace:
    """How a block is pulled.

    Attributes:
        block_s: The least seconds to time, from the first batch on.
        step_s: Seconds from a batch to the request for the next; 0: flat out.
        from_start: Whether the start of the loader counts too, and the block ends with the data.
    """

    block_s: float
    step_s: float = 0.0
    from_start: bool = False


FLAT_OUT: Final = Pace(0.0)

MeasureBlock = Callable[[LoaderFactory, Pace], ElementBlock]
"""Measures a loader from its start."""


def measure_block(
    loader: LoaderFactory, pace: Pace, clock: Clock, watch: Watch = UNWATCHED
) -> ElementBlock:
    """Start a loader and time its batches.

    Args:
        loader: Makes the loader.
        pace: How it is pulled.
        clock: Seconds.
        watch: Guards every wait for a batch.
    """
    counting = _CountingLoader(loader)
    if pace.from_start:
        return _measure_from_start(counting, pace, clock)
    puller = Puller(counting.batches, clock, watch)
    try:
        # Warm-up: the first workers have made batches ahead while the last ones started.
        if pace.step_s:
            _pull_beside_steps(puller, clock, _WARM_UP_SHARE * pace.block_s, pace.step_s)
            cost = _pull_beside_steps(puller, clock, pace.block_s, pace.step_s)
        else:
            puller.pull_flat_out(_WARM_UP_SHARE * pace.block_s)
            pulled = puller.pull_flat_out(pace.block_s)
            cost = pulled.s_per_batch, pulled.cpu_s_per_batch, pulled.typical_s_per_batch
    finally:
        close_with_timeout(puller.close)
    elements = counting.elements / puller.pulled
    s_per_batch, cpu_s_per_batch, load_s_per_batch = cost
    return ElementBlock(
        s_per_batch / elements, cpu_s_per_batch / elements, elements, load_s_per_batch
    )


def _pull_beside_steps(
    puller: Puller, clock: Clock, enough_s: float, step_s: float
) -> tuple[float, float, float]:
    """Pull as a trainer with a step does; return wall, CPU and typical waiting s per batch."""
    started_s, cpu_s = clock(), puller.processes.cpu_s()
    gaps_s: list[float] = []
    steps_s: list[float] = []
    while len(gaps_s) < _MIN_STEPS or clock() - started_s < enough_s:
        step_started_s = clock()
        clock.sleep(step_s)
        steps_s.append(clock() - step_started_s)
        gaps_s.append(puller.pull()[1])
    cpu_s = puller.processes.cpu_s() - cpu_s
    return fmean(gaps_s) + fmean(steps_s), cpu_s / len(gaps_s), median(gaps_s)


def _measure_from_start(counting: "_CountingLoader", pace: Pace, clock: Clock) -> ElementBlock:
    """Time a loader from the call that makes it, to the end of its data or of the block."""
    started_s, cpu_s = clock(), ProcessTree().cpu_s()
    gaps_s: list[float] = []
    first_s = end_s = started_s
    batches = counting.batches()
    try:
        while not gaps_s or end_s - first_s < pace.block_s:
            asked_s = clock()
            if next(batches, _END) is _END:
                break
            gaps_s.append(clock() - asked_s)
            first_s = clock() if len(gaps_s) == 1 else first_s
            clock.sleep(pace.step_s)
            end_s = clock()
        # Before the loader is closed: the CPU time of workers that have ended is not known.
        cpu_s = ProcessTree().cpu_s() - cpu_s
    finally:
        close_with_timeout(batches.close)
    if not gaps_s:
        raise MisuseError("loader() gave no batch: it must give at least one")
    elements = counting.elements
    return ElementBlock(
        (end_s - started_s) / elements,
        cpu_s / elements,
        elements / len(gaps_s),
        median(gaps_s),
        counting.ended,
    )


class _CountingLoader:
    """A loader that counts its elements and notes whether its data have ended."""

    def __init__(self, loader: LoaderFactory) -> None:
        self._loader = loader
        self.elements = 0
        self.ended = False

    def batches(self) -> Generator[Any, None, None]:
        with open_iterator(self._loader()) as batches:
            for batch in batches:
                self.elements += element_count(batch)
                yield batch
            self.ended = True
