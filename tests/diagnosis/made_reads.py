"""Made-up reads: of storages in virtual time, or from a few figures."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count, cycle
from statistics import fmean
from typing import Any

import numpy as np

from netpipe.diagnosis.cost_model import LoaderModel, StageCost
from netpipe.diagnosis.experiments.read_scaling import (
    LATENCY,
    LEVELS,
    Read,
    ReadScaling,
    find_growth,
    name_limit,
    split_by_size,
)
from netpipe.storage import emulated_storage
from netpipe.storage.emulated_storage import Service
from netpipe.storage.profiles import parse_storage

READ_S = 0.040


def made_read(read_s: float = READ_S, size: int = 20_000, reads: int = 1) -> Read:
    """Return an element whose time is that of its reads."""
    return Read(0, read_s, read_s, reads, size)


def made_scaling(
    growth: Sequence[float] = (1.0, 1.0, 1.0),
    limit: str = LATENCY,
    reads: Sequence[Read] = (),
) -> ReadScaling:
    """Return reads of 40 ms, slowed down by the growth of each level."""
    levels: Mapping[int, Sequence[Read]] = {
        in_flight: [made_read(factor * READ_S)] * 20
        for in_flight, factor in zip(LEVELS, growth, strict=True)
    }
    if reads:
        levels = {**levels, LEVELS[0]: reads}
    return ReadScaling(levels, dict(zip(LEVELS, growth, strict=True)), limit)


def read_in(
    service: Service, threads: int, numbers: Iterator[int], sizes: Sequence[int], starts_s: float
) -> list[Read]:
    """Read with several threads in virtual time."""
    reads = list[Read]()
    # For each thread: time of the next request, element, time of the first request, refusals.
    asking = [(starts_s, next(numbers), starts_s, 0) for _ in range(threads)]
    while len(reads) < max(150, 3 * threads):
        now_s, number, since_s, refusals = heappop(asking)
        size = sizes[number % len(sizes)]
        over_s, is_served = service.request(size, now_s, refusals)
        if is_served:
            reads.append(Read(number, over_s - since_s, over_s - since_s, 1, size))
            heappush(asking, (over_s, next(numbers), over_s, 0))
        else:
            heappush(asking, (over_s, number, since_s, refusals + 1))
    # read_scaling omits the reads that find an idle storage.
    return reads[len(reads) // 4 :]


def probe(
    settings: str, sizes: Sequence[int], *, cached: float = 1.0
) -> tuple[Any, list[float], str]:
    """Return the growth, the times alone and the limit of a storage in virtual time.

    Elements that are read again take `cached` of their time.
    """
    service, numbers, starts = Service(parse_storage(settings)), count(), count(1)
    emulated_storage._DRAW.seed(3)

    def read(threads: int, positions: Iterator[int]) -> list[Read]:
        return read_in(service, threads, positions, sizes, 1e3 * next(starts))

    alone_s = fmean(read.element_s for read in read(1, numbers))
    levels = {in_flight: read(in_flight, numbers) for in_flight in LEVELS}
    growth, alone = find_growth(levels, alone_s)
    halves = [
        [made_read(cached * each.element_s, each.source_bytes) for each in read(64, cycle(half))]
        for half in split_by_size(each for reads in levels.values() for each in reads)
    ]
    return growth, alone, name_limit(levels[LEVELS[-1]], alone, *halves)


def spread_reads(seed: int, number: int, mean_s: float = READ_S, sigma: float = 0.5) -> list[Read]:
    """Return reads whose times are log-normal, with exactly this mean."""
    drawn = np.random.default_rng(seed).lognormal(0.0, sigma, number)
    return [made_read(float(read_s)) for read_s in mean_s * drawn / drawn.mean()]


def times_of(reads: Iterable[Read]) -> list[float]:
    """Return the seconds of each element."""
    return [read.element_s for read in reads]


SLOW_READS = LoaderModel(
    ((StageCost(READ_S, 0.0, READ_S, READ_S), True),),
    workers=0,
    threads=4,
    cores=8,
    reads=made_scaling(),
)
"""A loader whose four threads share the 40 ms for which each batch waits."""
