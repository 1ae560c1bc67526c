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

_WARM_UP_SHARE: Final = 0.3  # of a block, before it: what workers made ahead comes in no time
_LEAST_STEPS: Final = 4
_END: Final = object()


@dataclass(frozen=True)
class ElementBlock:
    """What pulling for a while showed. Per element: a fix may change the batches.

    Attributes:
        s_per_element: Wall seconds, those of the trainer's steps among them.
        cpu_s_per_element: CPU seconds of all processes.
        elements_per_batch: How many came at a time, on average.
        load_s_per_batch: Seconds that a batch was waited for, the median.
        ended: Whether the data came to their end in it.
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
        block_s: Seconds to time, from the first batch on, at least; more where a few batches take
            longer.
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
    """Start a loader and time what it gives.

    Args:
        loader: Makes the loader.
        pace: How it is pulled.
        clock: Seconds.
        watch: Told of every wait for a batch.
    """
    if pace.from_start:
        return _from_start(loader, pace, clock)
    counted = _Counted(loader)
    puller = Puller(counted.batches, clock, watch)
    try:
        # Warm-up: the first workers have made batches ahead while the last ones started.
        warm_up_s = _WARM_UP_SHARE * pace.block_s
        if pace.step_s:
            _pull_stepping(puller, clock, warm_up_s, pace.step_s)
            spent = _pull_stepping(puller, clock, pace.block_s, pace.step_s)
        else:
            puller.pull_flat_out(warm_up_s)
            pulled = puller.pull_flat_out(pace.block_s)
            spent = _Spent(pulled.s_per_batch, pulled.cpu_s_per_batch, pulled.typical_s_per_batch)
    finally:
        close_with_timeout(puller.close)
    elements = counted.elements / puller.pulled
    return ElementBlock(
        spent.s_per_batch / elements, spent.cpu_s_per_batch / elements, elements, spent.typical_s
    )


@dataclass(frozen=True)
class _Spent:
    """What batches took: wall and CPU seconds on average, and what one is typically waited for."""

    s_per_batch: float
    cpu_s_per_batch: float
    typical_s: float


def _pull_stepping(puller: Puller, clock: Clock, enough_s: float, step_s: float) -> _Spent:
    """Pull as a trainer does whose step takes so long."""
    started, cpu_s = clock(), puller.processes.cpu_s()
    gaps_s: list[float] = []
    steps_s: list[float] = []
    while len(gaps_s) < _LEAST_STEPS or clock() - started < enough_s:
        stepped_s = clock()
        clock.sleep(step_s)
        steps_s.append(clock() - stepped_s)
        gaps_s.append(puller.pull()[1])
    used_s = puller.processes.cpu_s() - cpu_s
    return _Spent(fmean(gaps_s) + fmean(steps_s), used_s / len(gaps_s), median(gaps_s))


def _from_start(loader: LoaderFactory, pace: Pace, clock: Clock) -> ElementBlock:
    """Time a loader from the call that makes it, to the end of its data or of the block."""
    counted = _Counted(loader)
    started, cpu_s = clock(), ProcessTree().cpu_s()
    gaps_s: list[float] = []
    first_s = ends_s = started
    batches = counted.batches()
    try:
        while not gaps_s or ends_s - first_s < pace.block_s:
            asked_s = clock()
            if next(batches, _END) is _END:
                break
            gaps_s.append(clock() - asked_s)
            first_s = clock() if len(gaps_s) == 1 else first_s
            clock.sleep(pace.step_s)
            ends_s = clock()
        # Before the loader is closed: of workers that have ended nothing is known.
        used_s = ProcessTree().cpu_s() - cpu_s
    finally:
        close_with_timeout(batches.close)
    if not gaps_s:
        raise MisuseError("loader() gave no batch: it must give at least one")
    elements = counted.elements
    return ElementBlock(
        (ends_s - started) / elements,
        used_s / elements,
        elements / len(gaps_s),
        median(gaps_s),
        counted.ended,
    )


class _Counted:
    """A loader, how many elements it has given, and whether its data have ended."""

    def __init__(self, loader: LoaderFactory) -> None:
        self._loader = loader
        self.elements = 0
        self.ended = False

    def batches(self) -> Generator[Any, None, None]:
        """Start the loader."""
        with open_iterator(self._loader()) as batches:
            for batch in batches:
                self.elements += element_count(batch)
                yield batch
            self.ended = True
