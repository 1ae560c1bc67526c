"""The state of a training's pipeline, written to standard error every period."""

import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from operator import sub
from queue import Empty
from statistics import fmean
from threading import Event, Thread
from typing import Any, Final

import grain
from grain._src.python.dataset.dataset import get_execution_summary
from grain._src.python.dataset.stats import _populate_wait_time_ratio
from grain.proto.execution_summary_pb2 import ExecutionSummary

from netpipe.linting.graph.grain_classes import KNOWN_CLASSES
from netpipe.results.statistics import percentiles
from netpipe.results.units import format_seconds
from netpipe.session.footprint import read_memory
from netpipe.session.processes import ProcessTree
from netpipe.verdict.quantities import EPSILON

_TICK_S: Final = 1.0
_LONG_WAIT_S: Final = 10.0
# Bounds the memory that a long period takes.
_MAX_WAITS: Final = 1 << 16
_ROW: Final = "{:>9}  {:>8}  {:>8}  {:>8}  {:>9}  {:>8}  {}"
_HEADING: Final = _ROW.format(
    "of wait", "min ms", "mean ms", "max ms", "elements", "buffered", "stage"
)
_FUNCTION: Final = re.compile(
    r"(?:transform|source)=(?:functools\.partial\()?<?(?:function |bound method |class ')?"
    r"((?:[\w.]|<\w+>)+)"
)


class StateLog:
    """Describes how long training waits for batches, for which stage, and the memory it takes.

    Args:
        host: Names this process.
        iterator: Returns the iterator of Grain, which collects times, or None before it started.
    """

    def __init__(
        self,
        host: str,
        period_s: float,
        iterator: Callable[[], grain.DatasetIterator | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._host, self._period_s = host, period_s
        self._iterator, self._clock = iterator, clock
        # Batches, seconds waited, and since when the next is awaited. The training thread replaces
        # them together, so that reading them needs no lock.
        self._progress: tuple[int, float, float | None] = (0, 0.0, None)
        self._waits_s = deque[float](maxlen=_MAX_WAITS)
        # The time, batches and seconds waited at the last table.
        self._before = (clock(), 0, 0.0)
        self._summary, self._summary_before = ExecutionSummary(), ExecutionSummary()
        self._long_after = -1
        self._over = Event()

    def start(self) -> None:
        """Write lines as they become due, in a thread of its own."""
        Thread(target=self._run, name="netpipe-state-log", daemon=True).start()

    def close(self) -> None:
        """Stop writing."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.wait(_TICK_S):
            sys.stderr.write("".join(f"{line}\n" for line in self.take_lines()))
            sys.stderr.flush()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Count a batch, unless there is an error, and the time until it is there."""
        batches, waited_s, _ = self._progress
        began_s = self._clock()
        self._progress = batches, waited_s, began_s
        try:
            yield
            batches += 1
            self._waits_s.append(self._clock() - began_s)
        finally:
            self._progress = batches, waited_s + self._clock() - began_s, None

    def take_lines(self) -> list[str]:
        """Return the lines that are due: the state after a period, and once for each long wait."""
        self._take_summary()
        batches, waited_s, began_s = self._progress
        now_s = self._clock()
        awaiting_s = 0.0 if began_s is None else now_s - began_s
        lines = []
        if awaiting_s >= min(self._period_s, _LONG_WAIT_S) and batches != self._long_after:
            self._long_after = batches
            wait = f"waiting for a batch for {format_seconds(awaiting_s)}, after {batches} batches"
            lines = [f"netpipe, {self._host}: {wait}"]
        if now_s - self._before[0] >= self._period_s:
            lines += self._describe((now_s, batches, waited_s + awaiting_s), awaiting_s)
        return lines

    def _describe(self, now: tuple[float, int, float], awaiting_s: float) -> Iterator[str]:
        """Yield the state since the last call."""
        passed_s, batches, waited_s = map(sub, now, self._before)
        waits_s = [self._waits_s.popleft() for _ in range(min(batches, len(self._waits_s)))]
        start_s = waits_s[0] if waits_s and not self._before[1] else 0.0
        self._before = now
        # A wait that ended just after its reading was too long by the difference.
        waited_fraction = max(0.0, waited_s / passed_s)
        yield (
            f"netpipe, {self._host}: {batches} batches in {passed_s:.1f} s, "
            f"{waited_fraction:.0%} of the time waiting for them; "
            f"{read_memory()[0] / 1e6:,.0f} MB with {ProcessTree().workers} workers"
        )
        if waits_s:
            waits = percentiles(waits_s)
            figures = {"min": waits[0], "mean": fmean(waits_s), "max": waits[100], "p99": waits[99]}
            each = ", ".join(f"{name} {format_seconds(s)}" for name, s in figures.items())
            yield f"  wait for a batch: {each}"
        since = subtract(self._summary, self._summary_before)
        self._summary_before = self._summary
        if waited_fraction < EPSILON:
            bottleneck = f"none, training waited for less than {EPSILON:.0%} of the time"
        elif (single_s := max(start_s, awaiting_s)) > waited_s / 2:
            bottleneck = f"not known, because a single wait took {format_seconds(single_s)}"
        else:
            bottleneck = name_bottleneck(since)
        yield f"  bottleneck: {bottleneck}"
        yield from make_table(self._summary, since)

    def _take_summary(self) -> None:
        """Take the newest counts of the stages, which each worker sends every five seconds.

        Grain keeps six of them, reads the oldest first, and waits two seconds where there is none.
        """
        if (iterator := self._iterator()) is None:
            return
        queues = list(_find_queues(iterator._stats))  # noqa: SLF001  # there is no public way
        # Grain adds nodes of workers in a thread of its own; a killed worker may have sent nothing.
        with suppress(RuntimeError, Empty):
            for queue in queues:
                while queue.qsize() > 1:
                    queue.get_nowait()
            if all(queue.qsize() for queue in queues):
                self._summary = get_execution_summary(iterator)


def _find_queues(stats: Any) -> Iterator[Any]:
    yield from stats._config.stats_in_queues or ()  # noqa: SLF001
    for parent in stats._parents:  # noqa: SLF001
        yield from _find_queues(parent)


def subtract(summary: ExecutionSummary, before: ExecutionSummary) -> ExecutionSummary:
    """Return the counts since an earlier summary, with short names and parts of the wait."""
    since, suffix = deepcopy(summary), ""
    for number, node in sorted(since.nodes.items()):
        earlier = before.nodes[number]
        # A restored state starts another iterator, which counts from 0.
        if earlier.num_produced_elements <= node.num_produced_elements:
            node.num_produced_elements -= earlier.num_produced_elements
            node.total_processing_time_ns -= earlier.total_processing_time_ns
        # Grain does not time the buffers of workers, and would give their stages no wait.
        node.is_prefetch &= node.total_processing_time_ns > 0
        node.wait_time_ratio = 0
        node.name = shorten_name(node.name) + suffix
        if node.name == "ProcessPrefetch":
            suffix = " in workers"
    if since.nodes:
        _populate_wait_time_ratio(since)
    return since


def name_bottleneck(since: ExecutionSummary) -> str:
    """Return the stage that training waited for most."""
    nodes = since.nodes.values()
    stage = max(nodes, key=lambda node: node.wait_time_ratio, default=None)
    if not stage or stage.wait_time_ratio < 1 - sum(node.wait_time_ratio for node in nodes):
        return "not known, Grain has not counted the stages that training waited for"
    mean = format_seconds(stage.total_processing_time_ns / stage.num_produced_elements / 1e9)
    return f"{stage.name}, {stage.wait_time_ratio:.0%} of the wait, {mean} each"


def make_table(summary: ExecutionSummary, since: ExecutionSummary) -> list[str]:
    """Return a line for each stage that has made elements since an earlier summary.

    The elements that a stage has made, and the next one has not, are in its buffer.
    """
    takers = {source: node for node in summary.nodes.values() for source in node.inputs}
    lines = [_HEADING]
    for number, node in sorted(since.nodes.items()):
        if not (made := node.num_produced_elements):
            continue
        share, mean_ns = f"{node.wait_time_ratio:.1%}", node.total_processing_time_ns / made
        times_ns = node.min_processing_time_ns, mean_ns, node.max_processing_time_ns
        buffered = ""
        if node.is_prefetch and (taken := getattr(takers.get(number), "num_produced_elements", 0)):
            buffered = str(max(0, summary.nodes[number].num_produced_elements - taken))
        times_ms = (f"{time_ns / 1e6:.2f}" for time_ns in times_ns)
        lines.append(_ROW.format(share, *times_ms, made, buffered, node.name))
    return lines if len(lines) > 1 else []


def shorten_name(name: str) -> str:
    """Return a stage's kind, as the linter names it, and its function: `Map of pack`."""
    kind = re.split(r"[(\[]", name)[0].replace("DatasetIterator", "IterDataset")
    kind, _ = KNOWN_CLASSES.get(kind, (kind.removesuffix("IterDataset"), ()))
    function = _FUNCTION.search(name)
    return f"{kind} of {function[1]}" if function else kind
