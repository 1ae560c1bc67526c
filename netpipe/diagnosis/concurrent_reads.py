"""Measures reads that wait, with more and more of them in flight."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, count, cycle
from typing import Any, Final

from netpipe.diagnosis.read_scaling import (
    LATENCY,
    LEVELS,
    SATURATED_GROWTH,
    Read,
    ReadScaling,
    find_growth,
    name_limit,
    split_by_size,
)
from netpipe.diagnosis.stage_times import StageTime
from netpipe.diagnosis.turns import NO_TIME, TimeSlot
from netpipe.errors import SessionError
from netpipe.grain_access.observed_sources import observed_sources
from netpipe.grain_access.reader import collect_datasets, read_graph
from netpipe.storage.stand_in import count_bytes

_MIN_READS: Final = 150
_MIN_WAVES: Final = 3


def measure_read_scaling(dataset: Any, times: Iterable[StageTime], slot: TimeSlot) -> ReadScaling:
    """Read elements with more and more threads, after those that the loader begins with.

    Args:
        dataset: A pipeline of its own, without workers and threads.
        times: Of its stages.
        slot: How long it may take.

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
    alone_s, cpu_s = (
        sum(getattr(time, name) for time in reading) / calls
        for name in ("s_per_batch", "cpu_s_per_batch")
    )
    with observed_sources(dataset, _add_up):
        top_dataset = collect_datasets(dataset)[top]
        return replace(_measure_levels(top_dataset, alone_s, slot), alone_cpu_s=cpu_s)


def _measure_levels(elements: Any, alone_s: float, slot: TimeSlot) -> ReadScaling:
    positions = count(len(elements) // 3)
    levels = {n: _read_at_once(elements, positions, n, slot) for n in LEVELS}
    growth, alone = find_growth(levels, alone_s)
    limit = LATENCY
    if growth[LEVELS[-1]] >= SATURATED_GROWTH:
        halves = [
            _read_at_once(elements, cycle(half), LEVELS[-1], slot)
            for half in split_by_size(chain(*levels.values()))
        ]
        limit = name_limit(levels[LEVELS[-1]], alone, *halves)
    return ReadScaling(levels, growth, limit)


_SEEN: Final = threading.local()


def _add_up(read: Callable[[Any], Any], index: Any) -> Any:
    """Read, and add to what this thread has read of the sources."""
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
    """Read with so many threads until there are enough elements or the time is up.

    Each thread reads twice at least, if that is possible before the slot ends: the first reads find
    an idle storage, which serves some of them at once and may allow a burst.

    Returns:
        The later three quarters of the reads, without the first one of each thread.
    """
    reads: list[Read] = []
    failures: list[Exception] = []
    # The levels, and two halves by size.
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
                    seen = vars(_SEEN)
                    reads.append(Read(position, element_s, **seen, cpu_s=cpu_s))
        except Exception as error:  # noqa: BLE001  # raised again in the thread that waits
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
