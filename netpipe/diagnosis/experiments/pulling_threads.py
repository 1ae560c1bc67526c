"""Measures blocks of batches that threads pull flat out, each thread from its own loader."""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple

import psutil

from netpipe.clock import Clock
from netpipe.grain_access.loader_variants import copying_s
from netpipe.jobs.bounded_calls import CallingThread
from netpipe.jobs.heartbeat import UNWATCHED, Watch
from netpipe.jobs.processes import ProcessTree, core_delay_s
from netpipe.measuring.loader_puller import LoaderFactory, Puller, block_s

_MIN_BATCHES: Final = 2
_FIRST_LOOK_BATCHES: Final = 3
# Warm-up as a fraction of the block, because prefetched batches arrive at once.
_WARM_UP_FRACTION: Final = 0.25
# The smallest fraction of its wall time for which a thread is assumed to run.
_MIN_RUNNING_FRACTION: Final = 0.05
# Grain stops its workers one after the other.
_CLOSING_S: Final = 10.0
# Ratios divide by CPU times, which must not be 0.
_MIN_CPU_S: Final = 1e-9


@dataclass(frozen=True)
class Block:
    """The cost of a block, per batch.

    Attributes:
        s_per_batch: Wall seconds; the rates of several threads are added.
        read_bytes_per_batch: Bytes that came from a disk, not from the page cache; 0 if the
            kernel does not report them.
    """

    s_per_batch: float
    trainer_cpu_s_per_batch: float
    workers_cpu_s_per_batch: float = 0.0
    read_bytes_per_batch: float = 0.0

    @property
    def cpu_s_per_batch(self) -> float:
        """CPU seconds of all processes."""
        return self.trainer_cpu_s_per_batch + self.workers_cpu_s_per_batch


@dataclass(frozen=True)
class PullCost:
    """The cost of the batches that one thread pulled.

    `copying_s` is the CPU time spent on copying for an intervention.
    """

    batches: int
    wall_s: float
    restarts: int = 0
    restarts_own_cpu_s: float = 0.0
    restarts_workers_cpu_s: float = 0.0
    copying_s: float = 0.0


class PullingThread:
    """A thread that pulls from its own loader, which no other thread touches.

    After `until_s`, a time on the clock, a pull returns as soon as it has one batch. With
    `undelayed`, wall times exclude waiting for a core and copying for an intervention, which is
    valid only if the loader is idle while the thread copies.
    """

    def __init__(
        self,
        loader: LoaderFactory,
        clock: Clock,
        watch: Watch = UNWATCHED,
        until_s: float = inf,
        *,
        undelayed: bool = False,
    ) -> None:
        def start_loader() -> Iterable[Any]:
            self._own_s_at_start, self._workers_s_at_start = _own_cpu_s(), _workers_cpu_s()
            return loader()

        self._clock = clock
        self._until_s = until_s
        self._undelayed = undelayed
        self._thread = CallingThread("netpipe-pulling")
        try:
            self._puller = self._thread.submit(partial(Puller, start_loader, clock, watch)).result()
        except BaseException:
            self._thread.end(_CLOSING_S)
            raise

    def start_pulling(self, enough_s: float, least: int = _MIN_BATCHES) -> Callable[[], PullCost]:
        """Start pulling for `enough_s`; return a function that waits and returns the cost."""
        return self._thread.submit(partial(self._pull, enough_s, least)).result

    def _pull(self, enough_s: float, least: int) -> PullCost:
        started_s, delay_s, copied_s = self._clock(), core_delay_s(), copying_s()
        batches = restarts = 0
        wall_s = longest_s = own_cpu_s = workers_cpu_s = 0.0
        while not batches or (
            self._clock() < self._until_s
            and (
                batches < least
                or self._clock() - started_s < block_s(enough_s, longest_s, wall_s / batches)
            )
        ):
            restarts_before = self._puller.restarts
            wait_s = self._puller.pull()[1]
            wall_s += wait_s
            longest_s = max(longest_s, wait_s)
            batches += 1
            if self._puller.restarts != restarts_before:
                restarts += 1
                own_cpu_s += _own_cpu_s() - self._own_s_at_start
                workers_cpu_s += _workers_cpu_s() - self._workers_s_at_start
        delay_s, copied_s = core_delay_s() - delay_s, copying_s() - copied_s
        if self._undelayed:
            wall_s = max(_MIN_RUNNING_FRACTION * wall_s, wall_s - delay_s - copied_s)
        return PullCost(batches, wall_s, restarts, own_cpu_s, workers_cpu_s, copied_s)

    def close(self) -> None:
        """Stop the loader. A loader that cannot be stopped ends with its process."""
        self._thread.submit(self._puller.close)
        self._thread.end(_CLOSING_S)


def measure_block(threads: Sequence[PullingThread], enough_s: float) -> Block:
    """Return the cost while all threads pull at the same time, after a discarded warm-up."""
    for finish in [thread.start_pulling(_WARM_UP_FRACTION * enough_s) for thread in threads]:
        finish()
    return measure_cold_block(threads, enough_s)


def measure_cold_block(threads: Sequence[PullingThread], enough_s: float) -> Block:
    """Return the cost while all threads pull at the same time, without a warm-up."""
    workers_s, own_s, read = _workers_cpu_s(), time.process_time(), _read_bytes()
    running = [thread.start_pulling(enough_s) for thread in threads]
    costs = [finish() for finish in running]
    own_s, read = time.process_time() - own_s, _read_bytes() - read
    own_s -= sum(cost.copying_s for cost in costs)
    workers_s = _workers_cpu_s() - workers_s
    batches = sum(cost.batches for cost in costs)
    # Restarts count as loading only if the loader restarts before every batch.
    if loading := batches - sum(cost.restarts for cost in costs):
        own_s -= sum(cost.restarts_own_cpu_s for cost in costs)
        workers_s -= sum(cost.restarts_workers_cpu_s for cost in costs)
    return Block(
        s_per_batch=1 / sum(cost.batches / cost.wall_s for cost in costs),
        trainer_cpu_s_per_batch=max(_MIN_CPU_S, own_s) / (loading or batches),
        workers_cpu_s_per_batch=max(0.0, workers_s) / (loading or batches),
        read_bytes_per_batch=read / batches,
    )


class FirstLook(NamedTuple):
    """The seconds that a start takes, and the estimated seconds per batch."""

    start_s: float
    batch_s: float


def take_first_look(loader: LoaderFactory, clock: Clock, watch: Watch, until_s: float) -> FirstLook:
    """Start and stop a loader; return its start time and the mean time of its first batches."""
    started_s = clock()
    with closing(PullingThread(loader, clock, watch, until_s)) as thread:
        start_s = clock() - started_s
        cost = thread.start_pulling(0.0, least=_FIRST_LOOK_BATCHES)()
    return FirstLook(start_s, cost.wall_s / cost.batches)


def _own_cpu_s() -> float:
    return time.process_time() - copying_s()


def _workers_cpu_s() -> float:
    """Return the CPU seconds of all children, including those that have ended."""
    return ProcessTree().cpu_s() - time.process_time()


def _read_bytes() -> int:
    # psutil lacks the method if the kernel lacks the file.
    with suppress(psutil.Error, AttributeError):
        return int(psutil.Process().io_counters().read_bytes)
    return 0
