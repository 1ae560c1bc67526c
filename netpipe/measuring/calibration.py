"""A reference loader with fixed work, pulled alternately with the measured loader.

The machine's clock, caches and other programs slow both down by the same factor at the same moment,
so the ratio of their times varies less than either time. Calibration comes first, because the first
batches of a fresh loader have the same contents in every session.
"""

import time
from typing import Final

import grain
import numpy as np

from netpipe.clock import Clock
from netpipe.device.host import this_host
from netpipe.grain_access.worker_start import let_grain_start_workers
from netpipe.jobs.processes import ProcessTree, list_own_threads, thread_cpu_s
from netpipe.measuring.loader_puller import Puller, wait_until_quiet
from netpipe.results.measurement import CalibrationTurns

VERSION: Final = "reference-loader/1"
# Short compared with changes in the machine's load; long compared with a pull.
_TURN_S = 0.02
# A loader that only sleeps may seem to take less CPU time than reading the clocks.
_MIN_CPU_S = 1e-9
_MAX_FILLING_S = 2.0
_REFERENCE_PIECES = 4
# Six arrays, as in a batch of packed sequences.
_KEYS = "abcdef"
_SHAPE = (8, 256)
_VALUES: Final = np.arange(4_000, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)


class ReferenceLoader:
    """A running reference loader.

    It has as many workers as the measured loader, but at most one per CPU; without workers it loads
    in this process. Only ratios to a reference of the same `name` are comparable.
    """

    def __init__(self, workers: int) -> None:
        self.workers = min(workers, this_host().cores)
        self.name = f"{VERSION}, {self.workers} workers"
        others, threads = ProcessTree(), list_own_threads()
        let_grain_start_workers()
        self._iterator = iter(_dataset(self.workers))
        next(self._iterator)
        self.processes = ProcessTree(without=others.pids)
        self._threads = list_own_threads() - threads

    def measure_beside(self, puller: Puller, enough_s: float, clock: Clock) -> CalibrationTurns:
        """Pull the measured loader and this one alternately; return the CPU seconds per batch.

        No turn begins after `enough_s` seconds. A turn pulls at least one batch of the measured
        loader, then this one for as long. Workers and threads keep running between turns, so CPU
        time is read when all buffers are full. Turns with a restart are repeated if possible.
        """
        return puller.run_within_epoch(2, lambda: self._run_turns(puller, enough_s, clock))[0]

    def _run_turns(self, puller: Puller, enough_s: float, clock: Clock) -> CalibrationTurns:
        before = self._read_when_quiet(puller, clock)
        pulled, started = puller.pulled, clock()
        batches, here_s = self._run_turn(puller, clock)
        while clock() - started < enough_s and puller.epoch_has(1):
            more, longer_s = self._run_turn(puller, clock)
            batches, here_s = batches + more, here_s + longer_s
        pulled = puller.pulled - pulled
        pulled_s = time.thread_time()
        spent = self._read_when_quiet(puller, clock) - before
        # Reading the CPU clocks of all processes costs this thread up to a millisecond.
        reading_s = time.thread_time() - pulled_s
        load_s, workers_s, threads_s = spent.tolist()
        return CalibrationTurns(
            max(_MIN_CPU_S, load_s - threads_s - here_s - reading_s) / pulled,
            (workers_s + threads_s + here_s) / batches,
        )

    def _read_when_quiet(self, puller: Puller, clock: Clock) -> np.ndarray:
        """Return float64 (3,): CPU seconds of the loader, the reference's workers and threads."""
        loader, workers = puller.processes, self.processes
        wait_until_quiet(lambda: loader.cpu_s() + workers.children_cpu_s(), clock, _MAX_FILLING_S)
        load_s, workers_s = loader.cpu_s(), workers.children_cpu_s()
        return np.array([load_s, workers_s, sum(map(thread_cpu_s, self._threads))])

    def _run_turn(self, puller: Puller, clock: Clock) -> tuple[int, float]:
        """Run both turns; return the reference's batches and their CPU seconds in this thread."""
        started = clock()
        puller.pull()
        while (took_s := clock() - started) < _TURN_S and puller.epoch_has(1):
            puller.pull()
        handed_over_s, batches = time.thread_time(), 0
        while batches == 0 or clock() < started + 2 * took_s:
            next(self._iterator)
            batches += 1
        return batches, time.thread_time() - handed_over_s

    def close(self) -> None:
        """Stop the workers."""
        self._iterator.close()


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
    """Make a batch in about 0.6 ms of typical work: interpreted Python, NumPy, small objects."""
    total = 0
    for _ in range(_REFERENCE_PIECES):
        for value in range(300):
            total += value & 7
        named = {number: str(number) for number in range(40)}
        ordered = np.sort(_VALUES)
        np.cumsum(ordered >> np.uint64(3), out=ordered)
        total += len(named)
    return {key: np.full(_SHAPE, total + index, np.int64).astype(np.int32) for key in _KEYS}
