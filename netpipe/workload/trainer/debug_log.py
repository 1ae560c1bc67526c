"""The waits of a training run and the times of its pipeline's stages, on standard error."""

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any, Final

import grain
from grain._src.python.dataset.dataset import get_execution_summary
from grain.proto.execution_summary_pb2 import ExecutionSummary

from netpipe.clock import Clock
from netpipe.results.units import format_seconds
from netpipe.verdict.quantities import EPSILON
from netpipe.watching.watcher import Watcher
from netpipe.watching.window import Window

_LONG_WAIT_S: Final = 10.0
_READ_EVERY_S: Final = 1.0  # Grain makes a whole summary, under the GIL
_ROW: Final = "{:>9}  {:>8}  {:>8}  {:>8}  {:>9}  {}"
_FUNCTION: Final = re.compile(r"(?:transform|source)=(?:functools\.partial\(<function )?([\w.]+)")


class DebugLog(Watcher):
    """Batches that are watched; describes each window and the stage that training waits for.

    `iterator` returns Grain's iterator, which collects times, or None before the first batch.
    """

    def __init__(
        self,
        batches: Iterator[Any],
        host: str,
        period_s: float,
        iterator: Callable[[], grain.DatasetIterator | None],
        clock: Clock | None = None,
    ) -> None:
        super().__init__(batches, window_s=period_s, clock=clock)
        self._host, self._grain_iterator = host, iterator
        self._summary, self._summary_before = ExecutionSummary(), ExecutionSummary()
        self._reported_s: float | None = None
        self._next_read_s = 0.0

    def sample(self, at_s: float | None = None) -> None:
        """Read Grain's counts if each worker has sent new ones, and report a long wait once.

        Without new counts, Grain would wait for them.
        """
        super().sample(at_s)
        now_s = self._clock()
        iterator = self._grain_iterator() if now_s >= self._next_read_s else None
        if iterator and all(queue.qsize() for queue in _find_queues(iterator._stats)):  # noqa: SLF001
            with suppress(RuntimeError):  # Grain may be adding workers' nodes in its own thread.
                self._summary = get_execution_summary(iterator)
            self._next_read_s = now_s + _READ_EVERY_S
        asked_s = self._asked_s
        is_long = asked_s is not None and now_s - asked_s >= min(self._window_s, _LONG_WAIT_S)
        if asked_s is not None and is_long and asked_s != self._reported_s:
            self._reported_s = asked_s
            wait, batches = format_seconds(now_s - asked_s), self._taken + len(self._given)
            self._write_lines(f"waiting for a batch for {wait}, after {batches} batches")

    def report(self, window: Window) -> None:
        """Write the lines of a window."""
        figures = window.figures
        waited_s = figures.waiting_fraction * figures.seconds
        memory = f"{window.memory_bytes / 1e6:,.0f} MB with {window.workers} workers"
        waiting = f"{figures.waiting_fraction:.0%} of the time waiting for them"
        lines = [f"{figures.batches} batches in {figures.seconds:.1f} s, {waiting}; {memory}"]
        longest_s = self._open_s
        if waits := figures.wait_s:
            longest_s = max(longest_s, waits.longest)
            shown = map(format_seconds, (waits.p50, waits.p99, waits.longest))
            lines.append("  wait for a batch: p50 {}, p99 {}, max {}".format(*shown))
        stages = count_stages(self._summary, self._summary_before, waited_s)
        self._summary_before = self._summary
        if figures.waiting_fraction < EPSILON:
            bottleneck = f"none, training waited for less than {EPSILON:.0%} of the time"
        elif longest_s > waited_s / 2:
            bottleneck = f"not known, because a single wait took {format_seconds(longest_s)}"
        else:
            bottleneck = name_bottleneck(stages)
        self._write_lines(*lines, f"  bottleneck: {bottleneck}", *make_table(stages))

    def _write_lines(self, first: str, *others: str) -> None:
        lines = (f"netpipe, {self._host}: {first}", *others)
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()


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
    unexplained = 1 - sum(stage.wait_time_ratio for stage in stages)
    # Another iterator, from a restored state, may have made as many elements as the one before it.
    if not stage.num_produced_elements or stage.wait_time_ratio < unexplained:
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
