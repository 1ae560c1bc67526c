"""The time of each stage of a loader: timed if the loader is Grain's, sampled otherwise."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from netpipe.clock import Clock
from netpipe.diagnosis.blocks import PullingThread
from netpipe.diagnosis.instrumented_stages import measure_overhead, timed, without_overhead
from netpipe.diagnosis.loader_variants import OneThread
from netpipe.diagnosis.stack_sampling import Samples, UsersPath, function_names, sampled
from netpipe.linting.graph.nodes import Graph, Node
from netpipe.linting.graph.reader import collect_datasets, read_graph
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.session.heartbeat import Watch

_INFRASTRUCTURE: Final = ("ProcessPrefetch", "NoWorkers", "ThreadPrefetch", "Options", "DataLoader")
_MIN_PATH_FRACTION: Final = 0.5
_MAX_SAMPLED_STAGES: Final = 9
_WARM_UP_FRACTION: Final = 0.2


@dataclass(frozen=True)
class StageTime:
    """The time of a stage in the single-thread run.

    Attributes:
        name: As in `Stage`; so are `function` and `made_at`.
        node: Its node in the graph of the unmodified loader; None if it has none.
        single_thread_node: Its id in the graph of the single-thread run; None without a graph.
        s_per_batch: Wall seconds, without the stages that it reads from.
        cpu_s_per_batch: CPU seconds, likewise.
    """

    name: str
    node: Node | None
    single_thread_node: int | None
    function: str
    made_at: str
    s_per_batch: float
    cpu_s_per_batch: float


def measure_stage_times(
    loader: LoaderFactory, graph: Graph, budget_s: float, clock: Clock, watch: Watch
) -> tuple[StageTime, ...]:
    """Return the stages of a single-thread run, the largest first."""
    made = loader()
    if isinstance(made, OneThread):
        times = _time_nodes(made, graph, budget_s, clock, watch)
    else:
        times = stages_of_samples(*_sample(loader, budget_s, clock, watch))
    return _largest_first(times)


def _time_nodes(
    made: OneThread, graph: Graph, budget_s: float, clock: Clock, watch: Watch
) -> list[StageTime]:
    overhead, own_graph = measure_overhead(), read_graph(made.dataset)
    with timed(collect_datasets(made.dataset)) as timing:
        puller = PullingThread(lambda: made, clock, watch)
        try:
            # Starting the loader opened files: those calls do not count.
            timing.reset()
            batches = puller.start_pulling(budget_s)().batches
        finally:
            puller.close()
    unmodified = match_nodes(own_graph, graph)
    times = []
    for number, raw in timing.spent.items():
        spent, node = without_overhead(raw, overhead), own_graph.nodes[number]
        times.append(
            StageTime(
                str(node),
                unmodified.get(number),
                number,
                str(node.parameters.get("transform") or node.parameters.get("source") or ""),
                getattr(unmodified.get(number), "made_at", ""),
                spent.wall_s / batches,
                spent.cpu_s / batches,
            )
        )
    return times


def _sample(
    loader: LoaderFactory, budget_s: float, clock: Clock, watch: Watch
) -> tuple[Samples, float]:
    """Return the stacks seen while a loader was pulled, and its seconds per batch."""
    puller = PullingThread(loader, clock, watch)
    try:
        puller.start_pulling(_WARM_UP_FRACTION * budget_s)()
        with sampled() as samples:
            pulled = puller.start_pulling(budget_s)()
    finally:
        puller.close()
    return samples, pulled.wall_s / pulled.batches


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


def stages_of_samples(samples: Samples, batch_s: float) -> list[StageTime]:
    """Return the main path as one stage and every other path as one; the largest, and first."""
    total_s, main = sum(samples.wall_s.values()), find_main_path(samples.wall_s)
    stages: dict[tuple[str, ...], list[UsersPath]] = defaultdict(list)
    for path in samples.wall_s:
        names = function_names(path)
        stages[main if main and names[: len(main)] == main else names].append(path)
    times = [
        StageTime(
            " > ".join(names),
            None,
            None,
            names[-1],
            f"{paths[0][len(names) - 1].file}:{paths[0][len(names) - 1].line}",
            sum(samples.wall_s[path] for path in paths) / total_s * batch_s,
            sum(samples.cpu_s[path] for path in paths) / total_s * batch_s,
        )
        for names, paths in stages.items()
    ]
    return sorted(times, key=lambda time: -time.s_per_batch)[:_MAX_SAMPLED_STAGES]


def find_main_path(wall_s: Mapping[UsersPath, float]) -> tuple[str, ...]:
    """Return the functions that hold at least half of the time, the outermost first."""
    total_s, main = sum(wall_s.values()), tuple[str, ...]()
    while True:
        below: dict[str, float] = defaultdict(float)
        for path, path_s in wall_s.items():
            names = function_names(path)
            if names[: len(main)] == main and len(names) > len(main):
                below[names[len(main)]] += path_s
        most = max(below, key=lambda name: below[name], default=None)
        if most is None or below[most] < _MIN_PATH_FRACTION * total_s:
            return main
        main = (*main, most)


def _largest_first(times: Sequence[StageTime]) -> tuple[StageTime, ...]:
    """Sort stages, and number those that share a name."""
    ordered = sorted(times, key=lambda time: -time.s_per_batch)
    names = Counter(time.name for time in ordered)
    return tuple(
        replace(time, name=f"{time.name} #{place}") if names[time.name] > 1 else time
        for place, time in enumerate(ordered, 1)
    )
