"""A periodic log of a training run's pipeline on standard error."""

import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from operator import sub
from statistics import fmean
from threading import Event, Thread
from typing import Any, Final

import grain
from grain._src.python.dataset.dataset import get_execution_summary
from grain.proto.execution_summary_pb2 import ExecutionSummary

from netpipe.jobs.footprint import read_memory
from netpipe.jobs.processes import ProcessTree
from netpipe.results.statistics import percentiles
from netpipe.results.units import format_seconds
from netpipe.verdict.quantities import EPSILON

_TICK_S: Final = 1.0
_LONG_WAIT_S: Final = 10.0
_ROW: Final = "{:>9}  {:>8}  {:>8}  {:>8}  {:>9}  {}"
_FUNCTION: Final = re.compile(r"(?:transform|source)=(?:functools\.partial\(<function )?([\w.]+)")


class StateLog:
    """Logs how long training waits for batches, which stage it waits for, and the memory used.

    `iterator` returns Grain's iterator, which collects times, or None before the first batch.
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
        # Batches, seconds waited, and the start of the current wait or None. The training thread
        # replaces the whole tuple, so that reading it needs no lock.
        self._progress: tuple[int, float, float | None] = (0, 0.0, None)
        self._waits_s = deque[float]()
        # The time, batches and seconds waited as of the last table.
        self._before = (clock(), 0, 0.0)
        self._summary, self._summary_before = ExecutionSummary(), ExecutionSummary()
        self._long_after = -1
        self._over = Event()

    def start(self) -> None:
        """Start a thread that writes lines as they become due."""
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
        """Measure the wait for a batch, and count the batch unless there is an error."""
        batches, waited_s, _ = self._progress
        began_s = self._clock()
        self._progress = batches, waited_s, began_s
        try:
            yield
            batches += 1
            self._waits_s.append(self._clock() - began_s)
        except BaseException:
            self.close()  # there are no more batches to wait for
            raise
        finally:
            self._progress = batches, waited_s + self._clock() - began_s, None

    def take_lines(self) -> list[str]:
        """Return the lines that are due: the state once per period, and each long wait once."""
        self._read_summary()
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

    def _read_summary(self) -> None:
        """Read Grain's counts if each worker has sent new ones, since Grain would wait for them."""
        iterator = self._iterator()
        if iterator and all(queue.qsize() for queue in _find_queues(iterator._stats)):  # noqa: SLF001
            with suppress(RuntimeError):  # Grain may be adding workers' nodes in its own thread.
                self._summary = get_execution_summary(iterator)

    def _describe(self, now: tuple[float, int, float], awaiting_s: float) -> Iterator[str]:
        """Yield lines that describe the state since the last call."""
        passed_s, batches, waited_s = map(sub, now, self._before)
        waits_s = [self._waits_s.popleft() for _ in range(batches)]
        self._before = now
        # The last call counted too much if a wait ended just before it read the clock.
        waited_fraction = max(0.0, waited_s / passed_s)
        yield (
            f"netpipe, {self._host}: {batches} batches in {passed_s:.1f} s, "
            f"{waited_fraction:.0%} of the time waiting for them; "
            f"{read_memory()[0] / 1e6:,.0f} MB with {ProcessTree().workers} workers"
        )
        if waits_s:
            least, *_, p99, most = map(format_seconds, percentiles(waits_s))
            mean = format_seconds(fmean(waits_s))
            yield f"  wait for a batch: min {least}, mean {mean}, max {most}, p99 {p99}"
        stages = count_stages(self._summary, self._summary_before, waited_s)
        self._summary_before = self._summary
        if waited_fraction < EPSILON:
            bottleneck = f"none, training waited for less than {EPSILON:.0%} of the time"
        elif (single_s := max([*waits_s, awaiting_s])) > waited_s / 2:
            bottleneck = f"not known, because a single wait took {format_seconds(single_s)}"
        else:
            bottleneck = name_bottleneck(stages)
        yield f"  bottleneck: {bottleneck}"
        yield from make_table(stages)


def _find_queues(stats: Any) -> Iterator[Any]:
    yield from stats._config.stats_in_queues or ()  # noqa: SLF001  # there is no public API
    for parent in stats._parents:  # noqa: SLF001
        yield from _find_queues(parent)


def count_stages(
    summary: ExecutionSummary, before: ExecutionSummary, waited_s: float
) -> list[ExecutionSummary.Node]:
    """Return each stage's counts since an earlier summary, and its share of the wait.

    Training waits while the stages between it and the nearest buffer run. The rest of the wait is
    divided among the others in proportion to their times. Buffers only wait, and are omitted.
    """
    direct: list[ExecutionSummary.Node] = []
    behind: list[ExecutionSummary.Node] = []
    group, suffix = direct, ""
    for number, stage in sorted(deepcopy(summary).nodes.items()):
        name = shorten_name(stage.name)
        if stage.is_prefetch:
            group = behind
            suffix = " in workers" if name == "ProcessPrefetch" else suffix
            continue
        stage.name = name + suffix
        # A restored state starts another iterator, which counts from 0.
        if stage.num_produced_elements < (earlier := before.nodes[number]).num_produced_elements:
            earlier = ExecutionSummary.Node()
        stage.num_produced_elements -= earlier.num_produced_elements
        stage.total_processing_time_ns -= earlier.total_processing_time_ns
        group.append(stage)
    direct_ns, behind_ns = (sum(s.total_processing_time_ns for s in g) for g in (direct, behind))
    wait_ns = max(1, waited_s * 1e9, direct_ns)
    rest = (1 - direct_ns / wait_ns) / (behind_ns or 1)
    for stage in direct:
        stage.wait_time_ratio = stage.total_processing_time_ns / wait_ns
    for stage in behind:
        stage.wait_time_ratio = stage.total_processing_time_ns * rest
    return direct + behind


def name_bottleneck(stages: Sequence[ExecutionSummary.Node]) -> str:
    """Return a description of the stage that training waited for most."""
    stage = max(stages, key=lambda stage: stage.wait_time_ratio, default=ExecutionSummary.Node())
    if stage.wait_time_ratio < 1 - sum(stage.wait_time_ratio for stage in stages):
        return "not known, Grain has not counted the stages that training waited for"
    mean = format_seconds(stage.total_processing_time_ns / stage.num_produced_elements / 1e9)
    return f"{stage.name}, {stage.wait_time_ratio:.0%} of the wait, {mean} each"


def make_table(stages: Sequence[ExecutionSummary.Node]) -> Iterator[str]:
    """Yield a header and a line per stage that made elements; min and max are since the start."""
    if any(stage.num_produced_elements for stage in stages):
        yield _ROW.format("of wait", "min ms", "mean ms", "max ms", "elements", "stage")
    for stage in stages:
        if made := stage.num_produced_elements:
            mean_ns = stage.total_processing_time_ns / made
            times_ns = stage.min_processing_time_ns, mean_ns, stage.max_processing_time_ns
            times_ms = (f"{time_ns / 1e6:.2f}" for time_ns in times_ns)
            yield _ROW.format(f"{stage.wait_time_ratio:.1%}", *times_ms, made, stage.name)


def shorten_name(name: str) -> str:
    """Return the kind and the function of one of our stages, such as `Map of pack`."""
    kind = re.sub("(MapDataset|DatasetIterator)$", "", re.split(r"\W", name)[0])
    function = _FUNCTION.search(name)
    return f"{kind} of {function[1]}" if function else kind
