"""Measures waiting reads with more and more of them in flight, and names their limit."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, cycle
from math import sqrt
from statistics import fmean, pstdev
from typing import Any, Final

import numpy as np

from netpipe.diagnosis.experiments.stage_times import StageTime
from netpipe.diagnosis.experiments.turns import NO_TIME, TimeSlot
from netpipe.errors import SessionError
from netpipe.grain_access.observed_sources import observed_sources
from netpipe.grain_access.reader import collect_datasets, read_graph
from netpipe.storage.stand_in import count_bytes

LEVELS: Final = (4, 16, 64)
"""The numbers of reads in flight that are tried."""

LATENCY: Final = "read-latency"
BANDWIDTH: Final = "read-bandwidth"
THROTTLING: Final = "read-throttling"

SATURATED_GROWTH: Final = 1.5
"""At or above this growth, reads share a saturated storage."""

_MIN_READS: Final = 150
_MIN_WAVES: Final = 3
# Approximate number of reads in the single-thread run.
_ALONE_READS: Final = 75
# Smaller growth cannot be distinguished from none.
_MIN_GROWTH: Final = 1.05
_MIN_SIZE_RATIO: Final = 1.3
# Above this fraction of the time in which some thread is computing, Python's lock is the limit.
_MAX_LOCKED_FRACTION: Final = 0.85
# Growth of the quickest tenth over growth of the mean. It is 0.2 to 0.7 if reads are refused, and
# above 1.2 if all reads wait their turn.
_MAX_QUICK_RATIO: Final = 0.7
# Records that are this many times as fast when they are read again come from a cache.
_CACHED_SPEEDUP: Final = 3.0
# If reads take a smaller fraction of an element's time, the source is not the cause of the wait.
_MIN_SOURCE_FRACTION: Final = 0.5


@dataclass(frozen=True)
class Read:
    """The time of one element that a reader thread read, and its reads of the source.

    `cpu_s` is the CPU time of the thread. A source that cannot be observed has no reads.
    """

    position: int
    element_s: float
    source_s: float = 0.0
    source_reads: int = 0
    source_bytes: int = 0
    cpu_s: float = 0.0


@dataclass(frozen=True)
class ReadScaling:
    """How the time of an element changes with the number of reads in flight.

    Attributes:
        levels: The elements read, by the number of reads in flight.
        growth: The factor by which the storage slows a read down, by the number in flight.
        limit: The limit with the most reads in flight, one of the three names above; "" if the
            records are too alike to tell a bandwidth from a limit on requests.
    """

    levels: Mapping[int, Sequence[Read]]
    growth: Mapping[int, float]
    limit: str

    def growth_at(self, in_flight: float) -> float:
        """Return the growth at any number of reads, by asymptotic bounds from the nearest levels.

        Reads take at least as long as with fewer in flight. If more saturate the storage, each also
        waits its turn (Denning and Buzen 1978).
        """
        if in_flight <= 1:
            return 1.0
        fewer = [factor for level, factor in self.growth.items() if level <= in_flight]
        more = [level for level in self.growth if level > in_flight]
        full = more[0] if more else LEVELS[-1]
        is_saturated = self.growth[full] >= SATURATED_GROWTH
        turns = self.growth[full] * in_flight / full if more or is_saturated else 1.0
        return max(1.0, turns, *fewer)

    def more_reads_help(self, in_flight: int) -> bool:
        """Return whether four times the reads in flight give clearly more reads per second."""
        now, more = (reads / self.growth_at(reads) for reads in (in_flight, 4 * in_flight))
        return more >= SATURATED_GROWTH * now

    def count_source_reads(self) -> tuple[float, float, float]:
        """Return the seconds and bytes per read of the source, and the reads per element.

        All are 0 if the wait is not in the source.
        """
        reads = self.levels[LEVELS[0]]
        element_s, source_s, number, size = (
            sum(getattr(read, name) for read in reads)
            for name in ("element_s", "source_s", "source_reads", "source_bytes")
        )
        if source_s < _MIN_SOURCE_FRACTION * element_s:
            return 0.0, 0.0, 0.0
        return source_s / number, size / number, number / len(reads)


def measure_read_scaling(dataset: Any, times: Iterable[StageTime], slot: TimeSlot) -> ReadScaling:
    """Read elements with more and more threads, starting a third of the way into the elements.

    Args:
        dataset: The pipeline rebuilt without workers and threads.
        times: The stages of the pipeline.
        slot: The time slot for all reads.

    Raises:
        SessionError: There is not exactly one place where threads can read, or no time is left.
        Exception: Whatever reading raised.
    """
    graph = read_graph(dataset)
    readers = graph.of_kind("ToIter")
    if len(readers) != 1:
        raise SessionError(f"the pipeline must have one to_iter_dataset; found {len(readers)}")
    top = readers[0].parents[0]
    below = {top, *(node.id for node in graph.below(graph.nodes[top]))}
    reading = [time for time in times if time.single_thread_node in below]
    calls = max(
        [1.0, *(time.calls_per_batch for time in reading if time.single_thread_node == top)]
    )
    alone_s = sum(time.s_per_batch for time in reading) / calls
    with observed_sources(dataset, _add_up):
        elements: Any = collect_datasets(dataset)[top]
        positions = count(len(elements) // 3)
        levels = {n: _read_at_once(elements, positions, n, slot) for n in LEVELS}
        growth, alone = find_growth(levels, alone_s)
        limit, most = LATENCY, LEVELS[-1]
        if growth[most] >= SATURATED_GROWTH:
            halves = [
                _read_at_once(elements, cycle(half), most, slot)
                for half in split_by_size(chain(*levels.values()))
            ]
            limit = name_limit(levels[most], alone, *halves)
    return ReadScaling(levels, growth, limit)


_SEEN: Final = threading.local()


def _add_up(read: Callable[[Any], Any], index: Any) -> Any:
    """Return the record at an index, and add its read to this thread's totals."""
    started_s = time.perf_counter()
    record = read(index)
    seen = vars(_SEEN)
    seen["source_s"] = seen.get("source_s", 0.0) + time.perf_counter() - started_s
    seen["source_reads"] = seen.get("source_reads", 0) + 1
    seen["source_bytes"] = seen.get("source_bytes", 0) + count_bytes(record)
    return record


def _read_at_once(
    elements: Any, positions: Iterator[int], threads: int, slot: TimeSlot
) -> list[Read]:
    """Read with `threads` threads until there are enough elements or the time is up.

    The first reads find an idle storage, which serves some at once and may allow a burst. So each
    thread reads at least twice if time allows.

    Returns:
        The last three quarters of the reads, without the first read of each thread.
    """
    reads: list[Read] = []
    failures: list[Exception] = []
    # Each level, and each half by size, gets the same time.
    share_s, clock = slot.budget_s / (len(LEVELS) + 2), slot.clock
    slot.require(share_s)
    ends_s, enough = clock() + share_s, max(_MIN_READS, _MIN_WAVES * threads)

    def wants_read(turn: int, element_s: float) -> bool:
        in_time = clock() < ends_s and len(reads) < enough
        return not failures and (in_time or (turn < 2 and element_s < slot.remaining_s()))

    def read() -> None:
        turns, element_s = count(), 0.0
        try:
            while wants_read(turn := next(turns), element_s):
                position, started_s, cpu_s = next(positions), clock(), time.thread_time()
                vars(_SEEN).clear()
                elements[position]
                element_s, cpu_s = clock() - started_s, time.thread_time() - cpu_s
                if turn:
                    reads.append(Read(position, element_s, **vars(_SEEN), cpu_s=cpu_s))
        except Exception as error:  # noqa: BLE001  # raised again in the waiting thread
            failures.append(error)

    running = [
        threading.Thread(target=read, name="netpipe-read", daemon=True) for _ in range(threads)
    ]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join(min(slot.remaining_s(), threading.TIMEOUT_MAX))
        if thread.is_alive():
            raise SessionError(f"a read beside {threads - 1} others did not end in time")
    for failure in failures[:1]:
        raise failure
    if not reads:
        raise SessionError(NO_TIME)
    return reads[len(reads) // 4 :]


def find_growth(
    levels: Mapping[int, Sequence[Read]], alone_s: float
) -> tuple[dict[int, float], list[float]]:
    """Return the growth of each level, and the seconds of all elements without growth.

    More reads in flight are never quicker, so the mean times are those of an isotonic regression
    (Barlow et al., Statistical Inference under Order Restrictions, 1972). Levels that differ by
    less than three standard errors count as one sample. Levels limited by the lock show no growth.
    """
    growth, alone = dict[int, float](), list[float]()
    means_s = _rising_means_s(levels, alone_s)
    for in_flight, reads in levels.items():
        read_s = [read.element_s for read in reads]
        spread = pstdev(read_s) / fmean(read_s)
        noise = 3 * spread * sqrt(1 / len(read_s) + 1 / max(len(alone), _ALONE_READS))
        found = means_s.get(in_flight, 0.0) / fmean(alone or [alone_s])
        if 0.0 < found < max(_MIN_GROWTH, 1 + noise) and max(growth.values(), default=1.0) == 1.0:
            found, alone = 1.0, alone + read_s
        growth[in_flight] = max(found, 1.0, *growth.values())
    return growth, alone or [alone_s]


def _rising_means_s(levels: Mapping[int, Sequence[Read]], alone_s: float) -> dict[int, float]:
    """Return rising mean seconds per element by level, without levels that Python's lock limits."""
    from scipy.optimize import isotonic_regression

    means_s, weights = {1: alone_s}, [_ALONE_READS]
    for in_flight, reads in levels.items():
        mean_s = fmean(read.element_s for read in reads)
        if in_flight * fmean(read.cpu_s for read in reads) <= _MAX_LOCKED_FRACTION * mean_s:
            means_s[in_flight] = mean_s
            weights.append(len(reads))
    rising = isotonic_regression(list(means_s.values()), weights=weights)
    return dict(zip(means_s, rising.x.tolist(), strict=True))


def split_by_size(reads: Iterable[Read]) -> tuple[list[int], list[int]]:
    """Return the positions of the smaller half of the elements, and of the larger half."""
    by_size = sorted(reads, key=lambda read: read.source_bytes)
    middle = len(by_size) // 2
    smaller, larger = by_size[:middle], by_size[-middle:]
    return [read.position for read in smaller], [read.position for read in larger]


def name_limit(
    crowded: Sequence[Read],
    alone_s: Iterable[float],
    smaller: Sequence[Read],
    larger: Sequence[Read],
) -> str:
    """Return what limits a saturated storage, or "" if that is not clear.

    If the storage refuses some reads, they wait long while others are served at once, so the mean
    grows more than the quickest reads. A limited bandwidth passes the same number of bytes whatever
    the size of the records; a limit on requests passes the same number of records.
    """
    crowded_s, usual_s = [read.element_s for read in crowded], list(alone_s)
    quick_growth = np.percentile(crowded_s, 10) / np.percentile(usual_s, 10)
    if quick_growth < _MAX_QUICK_RATIO * fmean(crowded_s) / fmean(usual_s):
        return THROTTLING
    sizes, times = (
        [fmean(getattr(read, name) for read in half) for half in (smaller, larger)]
        for name in ("source_bytes", "element_s")
    )
    is_cached = _CACHED_SPEEDUP * fmean(times) < fmean(crowded_s)
    if is_cached or sizes[1] < _MIN_SIZE_RATIO * max(1.0, sizes[0]):
        return ""
    grows_with_size = times[1] / times[0] > sqrt(sizes[1] / max(1.0, sizes[0]))
    return BANDWIDTH if grows_with_size else THROTTLING
