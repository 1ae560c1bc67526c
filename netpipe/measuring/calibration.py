"""A reference loader, pulled in turns with the one that is measured.

What a batch costs depends on what else the machine does at that moment: on its clock, its caches
and its neighbours. A loader of fixed work, with as many workers, pays the same at the same moment,
so the ratio of the two keeps stiller where both move. It is done first, on the first batches of a
fresh loader: what a batch costs depends on what is in it, and those are the same in every session.
"""

import time
from dataclasses import dataclass
from typing import Final

import grain
import numpy as np

from netpipe.clock import Clock
from netpipe.device.host import this_host
from netpipe.grain_workers import let_grain_start_workers
from netpipe.measuring.loader_puller import Puller, wait_until_quiet
from netpipe.results.measurement import CalibrationTurns
from netpipe.session.descendants import thread_cpu_s
from netpipe.session.processes import ProcessTree, list_own_threads

VERSION: Final = "reference-loader/1"
_TURN_S = 0.02  # short against what a machine's load changes in, long against a pull
_LONGEST_FILLING_S = 2.0
_TRIES = 3  # for a loader that ends now and then
_PIECES = 4
_KEYS = "abcdef"  # as many arrays as a batch for a trainer of packed sequences has
_SHAPE = (8, 256)
_VALUES: Final = np.arange(4_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


class ReferenceLoader:
    """The reference loader, running.

    Args:
        workers: Worker processes of the loader that is measured; the reference has as many, but
            no more than there are CPUs. 0: it is pulled where it is made.
    """

    def __init__(self, workers: int) -> None:
        self.workers = min(workers, this_host().cores)
        others, threads = ProcessTree(), list_own_threads()
        let_grain_start_workers()
        self._iterator = iter(_dataset(self.workers))
        next(self._iterator)
        self.processes = ProcessTree(without=others.pids)
        self._threads = list_own_threads() - threads

    @property
    def name(self) -> str:
        """What a figure was calibrated by: only like is compared with like."""
        return f"{VERSION}, {self.workers} workers"

    def measure_beside(self, puller: Puller, enough_s: float, clock: Clock) -> CalibrationTurns:
        """Pull the loader that is measured and this one in turns.

        A loader whose batch takes longer than a turn gets a batch, and this one as much time.
        Workers and threads go on while it is the other's turn, so their CPU time counts from
        buffers that are full to buffers that are full again: for every batch that was pulled, one
        was made. Turns in which the loader had ended and was started again do not count where
        others can be had: starting is not loading.

        Args:
            puller: The loader that is measured.
            enough_s: Seconds after which to stop.
            clock: Seconds.
        """
        for _ in range(_TRIES):
            puller.ensure_epoch_has(2)
            restarts = puller.restarts
            turns = self._turns(puller, enough_s, clock)
            if puller.restarts == restarts:
                break
        return turns

    def _turns(self, puller: Puller, enough_s: float, clock: Clock) -> CalibrationTurns:
        before = self._spent_when_quiet(puller, clock)
        pulled, started = puller.pulled, clock()
        batches, here_s = self._turn(puller, clock)
        while clock() - started < enough_s and puller.epoch_has(1):
            more, longer_s = self._turn(puller, clock)
            batches, here_s = batches + more, here_s + longer_s
        pulled = puller.pulled - pulled
        pulled_s = time.thread_time()
        spent = self._spent_when_quiet(puller, clock) - before
        # Reading the clocks of all processes takes this thread up to a millisecond each time.
        reading_s = time.thread_time() - pulled_s
        load_s = spent.load_s - spent.threads_s - here_s - reading_s
        return CalibrationTurns(
            load_s / pulled, (spent.workers_s + spent.threads_s + here_s) / batches
        )

    def _spent_when_quiet(self, puller: Puller, clock: Clock) -> "_Spent":
        def all_s() -> float:
            return puller.processes.cpu_s() + self.processes.children_cpu_s()

        wait_until_quiet(all_s, clock, _LONGEST_FILLING_S)
        return _Spent(
            puller.processes.cpu_s(),
            self.processes.children_cpu_s(),
            sum(map(thread_cpu_s, self._threads)),
        )

    def _turn(self, puller: Puller, clock: Clock) -> tuple[int, float]:
        """Pull one, then the other; return what was pulled of it, and what this thread spent."""
        started = clock()
        while (took_s := _pulled_s(puller, started, clock)) < _TURN_S:
            if not puller.epoch_has(1):
                break
        handed_over_s, batches = time.thread_time(), 0
        while batches == 0 or clock() < started + 2 * took_s:
            next(self._iterator)
            batches += 1
        return batches, time.thread_time() - handed_over_s

    def close(self) -> None:
        """Stop its workers."""
        self._iterator.close()


@dataclass(frozen=True)
class _Spent:
    """CPU seconds until now: of the loader with all this process, the reference's two parts."""

    load_s: float
    workers_s: float
    threads_s: float

    def __sub__(self, other: "_Spent") -> "_Spent":
        return _Spent(
            self.load_s - other.load_s,
            self.workers_s - other.workers_s,
            self.threads_s - other.threads_s,
        )


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
