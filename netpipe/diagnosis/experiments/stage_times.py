"""Measures the time of each stage of a loader: by timing a Grain pipeline, or else by sampling."""

import os
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

from netpipe.clock import Clock
from netpipe.diagnosis.experiments.instrumented_stages import (
    Timing,
    measure_overhead,
    observed,
    without_overhead,
)
from netpipe.diagnosis.experiments.pulling_threads import PullingThread
from netpipe.grain_access.loader_variants import OneThread
from netpipe.grain_access.nodes import Graph, Node
from netpipe.grain_access.reader import collect_datasets, read_graph
from netpipe.jobs.failure import SITE_FOLDERS, STDLIB_FOLDER
from netpipe.jobs.heartbeat import Watch
from netpipe.jobs.processes import thread_cpu_s
from netpipe.measuring.loader_puller import LoaderFactory, Puller

_INFRASTRUCTURE: Final = ("ProcessPrefetch", "NoWorkers", "ThreadPrefetch", "Options", "DataLoader")
_MIN_PATH_FRACTION: Final = 0.5
_MAX_SAMPLED_STAGES: Final = 9
_WARM_UP_FRACTION: Final = 0.2
_SAMPLE_INTERVAL_S: Final = 0.002
_SWITCH_S: Final = 5e-5
_HARNESS: Final = str(Path(__file__).parents[2]) + os.sep
# A thread whose innermost function is in one of these files is waiting for another thread.
_WAITING: Final = tuple(
    STDLIB_FOLDER + file for file in ("threading.py", "queue.py", "selectors.py", "concurrent")
)

UsersPath = tuple[CodeType, ...]
"""The code of the user's functions on a stack, the outermost first."""


@dataclass(frozen=True)
class StageTime:
    """The time of a stage in the single-thread run.

    Attributes:
        node: The stage's node in the graph of the unmodified loader; None if there is none.
        single_thread_node: Id of its node in the single-thread run's graph; None without a graph.
        calls_per_batch: Elements that the stage makes for a batch; 0 without a graph.
    """

    name: str
    node: Node | None
    single_thread_node: int | None
    function: str
    made_at: str
    s_per_batch: float
    cpu_s_per_batch: float
    calls_per_batch: float = 0.0


def measure_stage_times(
    loader: LoaderFactory, graph: Graph, budget_s: float, clock: Clock, watch: Watch
) -> tuple[StageTime, ...]:
    """Return the stages of a single-thread run under unique names, the largest first."""
    made, start = loader(), partial(PullingThread, clock=clock, watch=watch)
    if isinstance(made, OneThread):
        times = _time_nodes(made, graph, budget_s, start)
    else:
        del made  # it may load in the background
        with closing(start(loader)) as puller:
            puller.start_pulling(_WARM_UP_FRACTION * budget_s)()
            with sampled() as samples:
                cost = puller.start_pulling(budget_s)()
        times = stages_of_samples(samples, cost.wall_s / cost.batches)
    ordered = sorted(times, key=lambda stage: -stage.s_per_batch)
    names = Counter(stage.name for stage in ordered)
    return tuple(
        replace(stage, name=f"{stage.name} #{rank}") if names[stage.name] > 1 else stage
        for rank, stage in enumerate(ordered, 1)
    )


def _time_nodes(
    made: OneThread, graph: Graph, budget_s: float, start: Callable[[LoaderFactory], PullingThread]
) -> list[StageTime]:
    overhead, own_graph = measure_overhead(), read_graph(made.dataset)
    timing, datasets = Timing(), collect_datasets(made.dataset)
    with observed(datasets, timing.call), closing(start(lambda: made)) as puller:
        # Discard calls made while the loader started, such as opening files.
        timing.spent.clear()
        batches = puller.start_pulling(budget_s)().batches
    unmodified, times = match_nodes(own_graph, graph), []
    for number, raw in timing.spent.items():
        spent, node = without_overhead(raw, *overhead), own_graph.nodes[number]
        original = unmodified.get(number)
        stage = StageTime(
            name=str(node),
            node=original,
            single_thread_node=number,
            function=str(node.parameters.get("transform") or node.parameters.get("source") or ""),
            made_at=original.made_at if original else "",
            s_per_batch=spent.wall_s / batches,
            cpu_s_per_batch=spent.cpu_s / batches,
            calls_per_batch=raw.calls / batches,
        )
        times.append(stage)
    return times


def match_nodes(single_thread: Graph, graph: Graph) -> dict[int, Node]:
    """Return the nodes of the unmodified loader by their ids in the single-thread run."""
    unmatched: dict[tuple[str, bool], list[Node]] = defaultdict(list)
    for node in graph.nodes:
        unmatched[str(node), node.random_access].append(node)
    return {
        node.id: same.pop(0)
        for node in single_thread.nodes
        if node.kind not in _INFRASTRUCTURE and (same := unmatched[str(node), node.random_access])
    }


@dataclass
class Samples:
    """The wall time for which each path was seen, and its threads' CPU time over that period."""

    wall_s: dict[UsersPath, float] = field(default_factory=lambda: defaultdict(float))
    cpu_s: dict[UsersPath, float] = field(default_factory=lambda: defaultdict(float))


@contextmanager
def sampled() -> Iterator[Samples]:
    """Sample the stacks of all threads that run the user's code."""
    samples, is_over = Samples(), threading.Event()
    sampler = threading.Thread(target=_sample, args=(samples, is_over), name="netpipe-stacks")
    # Otherwise a computing thread would only be seen where it releases Python's lock.
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    sampler.start()
    try:
        yield samples
    finally:
        is_over.set()
        sampler.join()
        sys.setswitchinterval(switch_s)


def _sample(samples: Samples, is_over: threading.Event) -> None:
    now_s, used_s = time.monotonic(), dict[int, float]()
    while not is_over.wait(_SAMPLE_INTERVAL_S):
        before_s, now_s = now_s, time.monotonic()
        native = {thread.ident: thread.native_id for thread in threading.enumerate()}
        for ident, frame in sys._current_frames().items():  # noqa: SLF001  # the documented way
            thread = native.get(ident)
            if thread is None or ident == threading.get_ident():
                continue
            cpu_before_s = used_s.get(ident)
            used_s[ident] = thread_cpu_s(thread)
            path = users_path(frame)
            if path and cpu_before_s is not None:
                samples.wall_s[path] += now_s - before_s
                samples.cpu_s[path] += used_s[ident] - cpu_before_s


def users_path(frame: FrameType | None) -> UsersPath:
    """Return the user's functions on a stack, or those of libraries if it has none of the user's.

    The path is empty for a thread that waits for another thread, and for a thread that starts the
    loader again after an epoch.
    """
    if frame is None or frame.f_code.co_filename.startswith(_WAITING):
        return ()
    own: list[CodeType] = []
    library: list[CodeType] = []
    while frame is not None:
        if frame.f_code is Puller.restart.__code__:
            return ()
        file = frame.f_code.co_filename
        if not file.startswith((_HARNESS, "<")):
            if any(folder in file for folder in SITE_FOLDERS):
                library.append(frame.f_code)
            elif not file.startswith(STDLIB_FOLDER):
                own.append(frame.f_code)
        frame = frame.f_back
    return tuple(reversed(own or library))


def function_names(path: UsersPath) -> tuple[str, ...]:
    """Return the names of a path's functions."""
    return tuple(code.co_qualname for code in path)


def stages_of_samples(samples: Samples, batch_s: float) -> list[StageTime]:
    """Return one stage for the main path and one for each other path, the largest first."""
    total_s, main = sum(samples.wall_s.values()), find_main_path(samples.wall_s)
    stages: dict[tuple[str, ...], list[UsersPath]] = defaultdict(list)
    for path in samples.wall_s:
        names = function_names(path)
        stages[main if main and names[: len(main)] == main else names].append(path)
    times = []
    for names, paths in stages.items():
        innermost = paths[0][len(names) - 1]
        wall_s, cpu_s = (
            sum(seconds[path] for path in paths) / total_s * batch_s
            for seconds in (samples.wall_s, samples.cpu_s)
        )
        place = f"{innermost.co_filename}:{innermost.co_firstlineno}"
        name = " > ".join(names)
        times.append(StageTime(name, None, None, innermost.co_qualname, place, wall_s, cpu_s))
    return sorted(times, key=lambda stage: -stage.s_per_batch)[:_MAX_SAMPLED_STAGES]


def find_main_path(wall_s: Mapping[UsersPath, float]) -> tuple[str, ...]:
    """Return the longest path of functions that takes at least half of the time."""
    within_s: dict[tuple[str, ...], float] = defaultdict(float)
    for path, path_s in wall_s.items():
        names = function_names(path)
        for length in range(1, len(names) + 1):
            within_s[names[:length]] += path_s
    enough_s = _MIN_PATH_FRACTION * sum(wall_s.values())
    return max((names for names, s in within_s.items() if s >= enough_s), key=len, default=())
