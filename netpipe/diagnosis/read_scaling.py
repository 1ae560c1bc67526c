"""How reads that wait scale with their number in flight, and what limits them. Arithmetic only."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapreplace
from math import log, sqrt
from statistics import fmean, pstdev
from typing import Final

import numpy as np

LEVELS: Final = (4, 16, 64)
"""The reads in flight that are tried."""

LATENCY: Final = "read-latency"
BANDWIDTH: Final = "read-bandwidth"
THROTTLING: Final = "read-throttling"

SATURATED_GROWTH: Final = 1.5
"""Reads that take this many times as long as alone share what the storage gives."""

# About as many as the single-thread run has.
_ALONE_READS: Final = 75
# Less growth moves no prediction by more than its interval.
_MIN_GROWTH: Final = 1.05
_MIN_SIZE_RATIO: Final = 1.3
# Of the time, what one thread or another computes: above, Python's lock is what limits them.
_MAX_LOCKED_FRACTION: Final = 0.85
# The growth of the quickest tenth over that of the mean: 0.2 to 0.7 if reads are refused, and above
# 1.2 if all of them wait their turn.
_MAX_QUICK_RATIO: Final = 0.7
# Records that are read again as much faster come from a cache.
_CACHED_SPEEDUP: Final = 3.0
# Of an element's time, what its reads take at least if the source is what waits.
_MIN_SOURCE_FRACTION: Final = 0.5
_MAX_SMALL_BYTES: Final = 1 << 20
_MAX_TRANSFER_FRACTION: Final = 0.5
_SIMULATED_READS: Final = 3000
_SEED: Final = 0


@dataclass(frozen=True)
class Read:
    """One element that a reader thread has read: its seconds, and those and the bytes of its reads.

    `cpu_s` is the CPU time of the thread. Without a source that can be observed there are no reads.
    """

    position: int
    element_s: float
    source_s: float = 0.0
    source_reads: int = 0
    source_bytes: int = 0
    cpu_s: float = 0.0


@dataclass(frozen=True)
class ReadScaling:
    """What reading elements takes, by how many are read at the same time.

    Attributes:
        levels: The elements read, by their number in flight.
        growth: The factor by which the storage slows a read down, by the reads in flight.
        limit: What limits the most reads in flight: one of the three names above, or "" if it is
            the bandwidth or a limit on requests, and the records are too alike to tell.
        alone_cpu_s: CPU seconds of an element in the single-thread run; 0: unknown.
    """

    levels: Mapping[int, Sequence[Read]]
    growth: Mapping[int, float]
    limit: str
    alone_cpu_s: float = 0.0

    def cpu_factor_at(self, in_flight: float) -> float:
        """Return the CPU time of an element over that in the single-thread run, at most 1.

        A thread that sleeps after each read finds its caches cold; those that take turns do not.
        """
        cpu_s = fmean(read.cpu_s for read in self._nearest(in_flight))
        return min(1.0, cpu_s / self.alone_cpu_s) if cpu_s and self.alone_cpu_s else 1.0

    def _nearest(self, in_flight: float) -> Sequence[Read]:
        return self.levels[min(self.levels, key=lambda level: abs(log(level / in_flight)))]

    def growth_at(self, in_flight: float) -> float:
        """Return the growth at any number of reads: the asymptotic bounds of the nearest levels.

        Reads take as long as those of fewer in flight, and in a storage that is saturated by more
        of them, each its turn (Denning and Buzen 1978).
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
        """Return whether four times as many reads in flight give clearly more of them a second."""
        now, more = (reads / self.growth_at(reads) for reads in (in_flight, 4 * in_flight))
        return more >= SATURATED_GROWTH * now

    def slowed(self, factor: float) -> "ReadScaling":
        """Return the same with a saturated storage that takes `factor` times as long."""
        growth = {
            n: max(1.0, found * factor) if found > 1 else 1.0 for n, found in self.growth.items()
        }
        return replace(self, growth=growth)

    def count_source_reads(self) -> tuple[float, float, float]:
        """Return the seconds and the bytes of a read of the source, and the reads of an element.

        All are 0 where the source is not what waits.
        """
        reads = self.levels[LEVELS[0]]
        element_s, source_s, number, size = (
            sum(getattr(read, name) for read in reads)
            for name in ("element_s", "source_s", "source_reads", "source_bytes")
        )
        if source_s < _MIN_SOURCE_FRACTION * element_s:
            return 0.0, 0.0, 0.0
        return source_s / number, size / number, number / len(reads)

    def larger_records_factor(self, times: int) -> float | None:
        """Return the factor on the waiting if records had so many times their size.

        There are as many times fewer reads, each of which takes the latency once: what of its time
        does not grow with its size (Theil-Sen's slope). None if larger records are no help.
        """
        if self.limit not in (LATENCY, THROTTLING):
            return None
        from scipy.stats import theilslopes

        read_s, read_bytes, _ = self.count_source_reads()
        if not 0 < read_bytes < _MAX_SMALL_BYTES:
            return None
        pairs = [
            (read.source_bytes / read.source_reads, read.source_s / read.source_reads)
            for read in self.levels[LEVELS[0]]
            if read.source_reads
        ]
        sizes, seconds = zip(*pairs, strict=True)
        slope = theilslopes(seconds, sizes).slope if len(set(sizes)) > 1 else 0.0
        transfer = min(1.0, max(0.0, slope * read_bytes / read_s))
        return transfer + (1 - transfer) / times if transfer < _MAX_TRANSFER_FRACTION else None

    def ordering_factor(self, threads: int, buffer: int, in_flight: int) -> float:
        """Return the time of reading in order over that without an order, simulated.

        The threads of a process read ahead until a slow element and those behind it fill the
        buffer. Refused reads are the slowest, so the times are those of as many in flight.
        """
        read_s = [read.element_s for read in self._nearest(in_flight)]
        chosen = np.random.default_rng(_SEED).choice(np.array(read_s), _SIMULATED_READS)
        free_s, taken_s = [0.0] * threads, [0.0] * _SIMULATED_READS
        for number, read_s in enumerate(chosen.tolist()):
            room_s = taken_s[number - buffer] if number >= buffer else 0.0
            over_s = max(free_s[0], room_s) + read_s
            heapreplace(free_s, over_s)
            taken_s[number] = max(over_s, taken_s[number - 1])
        return max(1.0, taken_s[-1] * threads / float(chosen.sum()))


def find_growth(
    levels: Mapping[int, Sequence[Read]], alone_s: float
) -> tuple[dict[int, float], list[float]]:
    """Return the growth of each level, and the seconds of all elements without growth.

    More reads in flight are never quicker: the mean times are those of an isotonic regression
    (Barlow et al., Statistical Inference under Order Restrictions, 1972). Levels that do not differ
    clearly, by three standard errors, are one sample. Where threads compute nearly all the time, in
    turns because of Python's lock, the storage is not seen to slow them down.
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
    """Return the seconds of an element by its level, without levels that Python's lock limits."""
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
    """Return the positions of the smaller and of the larger half of the elements."""
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

    Refused reads wait long beside others that are served at once, so that the mean grows by more
    than the quickest reads. A bandwidth lets as many bytes pass of large records as of small ones,
    a limit on requests as many records.
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
