"""A reference loader, pulled in turns with the one that is measured.

What a batch costs depends on what else the machine does at that moment: on its clock, its caches
and its neighbours. A loader of fixed work, with as many workers, pays the same at the same moment,
so the ratio of the two keeps still where both move. Measured on two shared cores, over 11 sessions
with another program on one of them at random: CPU seconds of a batch spread by 6.5% (standard
deviation), over a workload timed next to each round by 7.4%, in turns with this loader by 1.0%.
"""

import time
from dataclasses import dataclass
from typing import Final

import grain
import numpy as np

from netpipe.grain_workers import let_grain_start_workers
from netpipe.harness.clock import Clock
from netpipe.harness.host import this_host
from netpipe.harness.processes import ProcessTree
from netpipe.harness.pull import Puller

VERSION: Final = "reference-loader/1"
_TURN_S = 0.02  # short against what a machine's load changes in, long against a pull
_PATIENCE = 3.0  # times the time for it, for a loader that ends in every turn
_PIECES = 4
_KEYS = "abcdef"  # as many arrays as a batch for a trainer of packed sequences has
_SHAPE = (8, 256)
_VALUES: Final = np.arange(4_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Turns:
    """What two loaders cost that were pulled in turns.

    Attributes:
        load_cpu_s: CPU seconds of a batch of the loader that is measured, all processes.
        reference_cpu_s: CPU seconds of a batch of the reference loader, all processes.
    """

    load_cpu_s: float
    reference_cpu_s: float


class Reference:
    """The reference loader, running.

    Args:
        workers: Worker processes of the loader that is measured; the reference has as many, but
            no more than there are CPUs. 0: it is pulled where it is made.
    """

    def __init__(self, workers: int) -> None:
        self.workers = min(workers, this_host().cores)
        others = ProcessTree()
        let_grain_start_workers()
        self._iterator = iter(_dataset(self.workers))
        next(self._iterator)
        self.processes = ProcessTree(without=others.pids)

    @property
    def name(self) -> str:
        """What a figure was calibrated by: only like is compared with like."""
        return f"{VERSION}, {self.workers} workers"

    def beside(self, puller: Puller, enough_s: float, clock: Clock) -> Turns:
        """Pull the loader that is measured and this one in turns.

        A loader whose batch takes longer than a turn gets a batch, and this one as much time.
        Workers go on while it is the other's turn, so their CPU time counts in both; that of this
        process counts for the one whose turn it is. A turn in which the loader had ended and was
        started again does not count: starting is not loading.

        Args:
            puller: The loader that is measured.
            enough_s: Seconds after which to stop.
            clock: Seconds.
        """
        self._turn(puller, clock)  # from here on both have their buffers as full as they stay
        load, reference, started = _Spent(), _Spent(), clock()
        while clock() - started < enough_s or load.batches == 0:
            restarts = puller.restarts
            loaded, referred = self._turn(puller, clock)
            if puller.restarts == restarts or clock() - started > _PATIENCE * enough_s:
                load += loaded
                reference += referred
        return Turns(load.cpu_s_per_batch, reference.cpu_s_per_batch)

    def _turn(self, puller: Puller, clock: Clock) -> tuple["_Spent", "_Spent"]:
        """Pull one, then the other; return what each took."""
        load_workers_s, workers_s = puller.processes.children_cpu_s(), self._workers_cpu_s()
        pulled, started, begun_s = puller.pulled, clock(), time.process_time()
        while (took_s := _pulled_s(puller, started, clock)) < _TURN_S:
            pass
        handed_over_s, batches = time.process_time(), 0
        while batches == 0 or clock() < started + 2 * took_s:
            next(self._iterator)
            batches += 1
        ended_s = time.process_time()
        load_workers_s = puller.processes.children_cpu_s() - load_workers_s
        workers_s = self._workers_cpu_s() - workers_s
        return (
            _Spent(puller.pulled - pulled, load_workers_s + handed_over_s - begun_s),
            _Spent(batches, workers_s + ended_s - handed_over_s),
        )

    def _workers_cpu_s(self) -> float:
        return self.processes.children_cpu_s()

    def close(self) -> None:
        """Stop its workers."""
        self._iterator.close()


@dataclass(frozen=True)
class _Spent:
    batches: int = 0
    cpu_s: float = 0.0

    def __add__(self, other: "_Spent") -> "_Spent":
        return _Spent(self.batches + other.batches, self.cpu_s + other.cpu_s)

    @property
    def cpu_s_per_batch(self) -> float:
        return self.cpu_s / self.batches


def _pulled_s(puller: Puller, started: float, clock: Clock) -> float:
    """Pull a batch; return the seconds since the turn began."""
    puller.pull()
    return clock() - started


def _dataset(workers: int) -> grain.IterDataset:
    batches = (
        grain.MapDataset.range(1 << 40)
        .map(_batch)
        .to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    )
    if workers == 0:
        return batches
    return batches.mp_prefetch(grain.MultiprocessingOptions(workers, 1))


def _batch(index: int) -> dict[str, np.ndarray]:
    """Do what input pipelines do, some 0.6 ms of it: interpreted Python, NumPy, small objects."""
    total = 0
    for _ in range(_PIECES):
        for value in range(300):
            total += value & 7
        named = {number: str(number) for number in range(40)}
        ordered = np.sort(_VALUES)
        np.cumsum(ordered >> np.uint64(3), out=ordered)
        total += len(named)
    return {key: np.full(_SHAPE, total + index, np.int64).astype(np.int32) for key in _KEYS}
