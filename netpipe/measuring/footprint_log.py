"""Memory, shared memory and open files of a session, read once per round between timed blocks.

Growth is the slope of the total over all processes against the batches pulled, so workers that are
restarted for each epoch count as one pool. A slope clearly above 0 is not enough for a finding,
because allocators and buffers also grow by some megabytes and then stop. Such growth is rarely
steady, so a precisely known slope is judged by the growth that it predicts for a long training.
"""

import gc
from collections.abc import Iterator
from heapq import nlargest
from os import getpid
from typing import Any, Final

import psutil

from netpipe.clock import Clock
from netpipe.jobs import footprint
from netpipe.jobs.cleanup import list_started
from netpipe.jobs.processes import LOWER_BUFFERS, ProcessTree
from netpipe.measuring.loader_puller import Puller
from netpipe.results.measurement import Finding, Interval
from netpipe.results.statistics import MIN_LASTING_SLOPE_RATIO, half_width_fraction, slope_interval
from netpipe.results.units import format_bytes, format_number

_OWN, _SHARED, _OPEN = "memory", "shared memory", "open files"
# For each kind: the name of its finding, the smallest growth reported over all rounds, the smallest
# reported over a long training if the slope is precise, and the advice.
_FINDINGS: Final = {
    _OWN: ("memory-grows", 32e6, 1e9, f"find what is kept there, or {LOWER_BUFFERS}"),
    _SHARED: ("shared-memory-grows", 4e6, 100e6, "close and unlink what is no longer needed"),
    _OPEN: ("open-files-grow", 32, 1000, "close each file that is no longer read"),
}
_LONG_TRAINING_BATCHES: Final = 100_000
# Largest half-width of a precise slope's interval, as a fraction of the slope.
_MAX_PRECISE_HALF_WIDTH: Final = 0.1
# With fewer readings, the interval of a slope is unbounded.
_MIN_READINGS: Final = 5
# Largest fraction of the time to spend on readings, which take 10 ms for each 200 MB.
_MAX_READING_FRACTION: Final = 0.1
_MIN_LEFT_BYTES: Final = 64 << 10
_MIN_LEFT_FILES: Final = 16
# The session itself keeps some batches, which may lie in shared memory.
_KEPT_BATCHES: Final = 4
_ENDING_S: Final = 0.5


class FootprintLog:
    """A log of the memory and files of a session's processes, except the reference loader's.

    Create it before the loader, so that existing processes and files in /dev/shm do not count.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock, self._made_s, self._reading_s = clock, clock(), 0.0
        self._children = ProcessTree().pids
        self._listed = [footprint.list_shared_files().keys()]
        self._batches: list[int] = []
        self._held: list[dict[str, dict[int, int]]] = []
        self._files: dict[str, int] = {}
        self._is_shared_sure = True
        self._peak_bytes = 0
        self._names = {getpid(): "the training process"}

    def read(self, puller: Puller) -> None:
        """Log the current memory and files, unless earlier readings took too much of the time."""
        started_s = self._clock()
        if self._reading_s > _MAX_READING_FRACTION * (started_s - self._made_s):
            return
        tree = puller.list_processes()
        workers = {pid: f"worker {number}" for number, pid in enumerate(tree.worker_pids, 1)}
        self._names = {**dict.fromkeys(tree.pids, "a helper process"), **workers, **self._names}
        pids = (getpid(), *tree.pids)
        memory = {pid: footprint.read_pss(pid) for pid in pids}
        self._peak_bytes = max(self._peak_bytes, sum(pss_bytes for pss_bytes, _ in memory.values()))
        self._files = self._list_lasting_files()
        own_bytes = {pid: own for pid, (_, own) in memory.items()}
        # The C library keeps much of the freed memory for a while, which would look like growth.
        own_bytes[getpid()] -= footprint.free_heap_bytes()
        self._held.append(
            {
                _OWN: own_bytes,
                _SHARED: {getpid(): sum(self._files.values())},
                _OPEN: {pid: footprint.count_open_files(pid) for pid in pids},
            }
        )
        self._batches.append(puller.pulled)
        self._reading_s += self._clock() - started_s

    def _list_lasting_files(self, readings_ago: int = 1) -> dict[str, int]:
        """Return the new files in /dev/shm that existed `readings_ago` readings ago, with sizes.

        Batches in transit are gone by then, because buffers were drained. Python gives its files
        random names, so their owner is unknown if another program also uses such files.
        """
        files = footprint.list_shared_files()
        earlier = self._listed[max(0, len(self._listed) - readings_ago)]
        self._listed.append(files.keys())
        names = files.keys() & earlier - self._listed[0]
        sizes = {name: files[name] for name in names}
        unknown = sum(sizes[name] for name in names if name.startswith(footprint.PYTHONS_PREFIX))
        is_mostly_unknown = 2 * unknown > sum(sizes.values())
        self._is_shared_sure &= not (
            is_mostly_unknown and footprint.is_shared_memory_used_elsewhere()
        )
        return sizes

    def describe(self) -> dict[str, Any]:
        """Return the memory fields of a Measurement; empty if the kernel does not report memory."""
        if not self._peak_bytes:
            return {}
        return {
            "peak_pss_bytes": self._peak_bytes,
            "growth_bytes_per_batch": self._growth(_OWN),
            "growing_process": self._name_growing(_OWN),
        }

    @property
    def may_leak(self) -> bool:
        """Whether something certainly goes on growing, and may grow enough for a finding."""
        return any(
            self._keeps_growing(kind) and self._growth(kind).high * _LONG_TRAINING_BATCHES >= least
            for kind, (_, _, least, _) in _FINDINGS.items()
        )

    @property
    def can_judge_growth(self) -> bool:
        """Whether there are enough readings for the interval of a slope."""
        return len(self._held) >= _MIN_READINGS

    def findings(self, *, within_epochs: bool = True) -> Iterator[Finding]:
        """Yield a finding for each kind that grows, or a single one if readings are too few."""
        if self._held and not self.can_judge_growth:
            more = "use a larger budget" if within_epochs else "let the loader go on (repeat)"
            message = f"{len(self._held)} readings, {_MIN_READINGS} needed; {more}"
            yield Finding("growth-not-judged", f"growth of memory was not judged: {message}")
        for kind, (name, least, least_in_training, way_out) in _FINDINGS.items():
            if not self._keeps_growing(kind):
                continue
            slope, batches = self._growth(kind), self._batches[-1] - self._batches[0]
            is_precise = half_width_fraction(slope) <= _MAX_PRECISE_HALF_WIDTH
            in_training = slope.median * _LONG_TRAINING_BATCHES
            is_leak = is_precise and in_training >= least_in_training
            if is_leak or slope.median * batches >= least:
                write = format_number if kind == _OPEN else format_bytes
                ends = f"{write(slope.low)} to {write(slope.high)}"
                message = (
                    f"{kind} grows by {write(slope.median)} for each batch ({ends}), by "
                    f"{write(slope.median * batches)} in {batches} batches, which would be "
                    f"{write(in_training)} in {_LONG_TRAINING_BATCHES:,}, most of all in "
                    f"{self._name_growing(kind)}: {way_out}"
                )
                if kind == _SHARED and not self._is_shared_sure:
                    name = "shared-memory-not-judged"
                    message += ". Or they belong to another program: end that program"
                yield Finding(name, message)

    def _name_growing(self, kind: str) -> str:
        if kind == _SHARED:
            return _describe_files(self._files)
        lasting = set.intersection(*(set(held[kind]) for held in self._held))
        pid = max(lasting, key=lambda pid: self._growth(kind, pid).median)
        if 2 * self._growth(kind, pid).median < self._growth(kind).median:
            return "several processes, or successive workers"
        return f"{self._names[pid]} (pid {pid})"

    def _keeps_growing(self, kind: str) -> bool:
        """Return whether a total certainly grows, and does so in the later half of the readings."""
        slope, later = self._growth(kind), self._growth(kind, since=len(self._held) // 2)
        return slope.low > 0 and later.median >= MIN_LASTING_SLOPE_RATIO * slope.median

    def _growth(self, kind: str, pid: int | None = None, since: int = 0) -> Interval:
        """Return the growth per batch of all processes, or of `pid`, which is in all readings."""
        readings = [held[kind] for held in self._held[since:]]
        totals = [sum(held.values()) if pid is None else held[pid] for held in readings]
        return slope_interval(self._batches[since:], totals)

    def find_left(self, puller: Puller, batch_bytes: int) -> Finding | None:
        """Return a finding that lists whatever the closed loader left behind, or None."""
        gc.collect()  # an iterator without `close` may end its workers when it is collected
        workers = set(puller.list_processes().worker_pids).difference(self._children)
        running = [process for process in list_started(getpid()) if process.pid in workers]
        pids = [process.pid for process in psutil.wait_procs(running, _ENDING_S)[1]]
        left = [f"{self._names.get(pid, 'a process')} (pid {pid})" for pid in pids]
        shared = self._list_lasting_files(2)  # batches from the last reading may remain
        is_left = sum(shared.values()) >= _MIN_LEFT_BYTES + _KEPT_BATCHES * batch_bytes
        if is_left and self._is_shared_sure:
            left.append(_describe_files(shared))
        opened = footprint.count_open_files(getpid())
        before = self._held[0][_OPEN][getpid()] if self._held else opened
        if opened - before >= _MIN_LEFT_FILES:
            left.append(f"{opened - before} more open files than in the first round")
        message = (
            f"still there after the loader was closed, and more with each start: {'; '.join(left)}"
        )
        return Finding("left-after-close", message) if left else None


def _describe_files(sizes: dict[str, int]) -> str:
    largest = ", ".join(nlargest(3, sizes, key=sizes.__getitem__))
    total = format_bytes(sum(sizes.values()))
    return f"{len(sizes)} files of {total} in {footprint.SHARED_FOLDER}, such as {largest}"
