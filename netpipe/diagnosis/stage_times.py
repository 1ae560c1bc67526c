"""What each stage of a loader takes: timed where it is Grain's, sampled where it is not."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from netpipe.clock import Clock
from netpipe.diagnosis.blocks import PullingThread
from netpipe.diagnosis.instrumented_stages import measured_overhead, timed, without_overhead
from netpipe.diagnosis.loader_variants import OneThread
from netpipe.diagnosis.stack_sampling import Sampled, UsersPath, functions, sampled
from netpipe.linting.graph.nodes import Graph, Node
from netpipe.linting.graph.reader import collect_datasets, read_graph
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.session.heartbeat import Watch

_INFRASTRUCTURE: Final = ("ProcessPrefetch", "NoWorkers", "ThreadPrefetch", "Options", "DataLoader")
_HALF: Final = 0.5
_MOST_OTHERS: Final = 8


@dataclass(frozen=True)
class StageTime:
    """What a stage takes for a batch of a lane.

    Attributes:
        name: As of `Stage`; so are `function` and `made_at`.
        node: Its node in the graph of the loader as it is; None without one.
        lane_node: Its node in the graph of the lane; None without one.
        s_per_batch: Wall seconds of its own.
        cpu_s_per_batch: CPU seconds of those.
    """

    name: str
    node: Node | None
    lane_node: int | None
    function: str
    made_at: str
    s_per_batch: float
    cpu_s_per_batch: float


def stage_times(
    loader: LoaderFactory, graph: Graph, budget_s: float, clock: Clock, watch: Watch
) -> tuple[StageTime, ...]:
    """Return what the stages of a lane take, the largest first.

    Args:
        loader: Makes a lane.
        graph: Of the loader as it is.
        budget_s: Seconds.
        clock: Seconds.
        watch: Told of every wait for a batch.
    """
    made = loader()
    if not isinstance(made, OneThread):
        return _by_stacks(*_sampled(loader, budget_s, clock, watch))
    overhead, lane_graph = measured_overhead(), read_graph(made.dataset)
    with timed(collect_datasets(made.dataset)) as timing:
        lane = PullingThread(lambda: made, clock, watch)
        try:
            timing.start_anew()
            batches = lane.start_pulling(budget_s)().batches
        finally:
            lane.close()
    as_it_is = _same_nodes(lane_graph, graph)
    times = []
    for number, raw in timing.spent.items():
        spent, node = without_overhead(raw, overhead), lane_graph.nodes[number]
        function = str(node.parameters.get("transform") or node.parameters.get("source") or "")
        times.append(
            StageTime(
                str(node),
                as_it_is.get(number),
                number,
                function,
                getattr(as_it_is.get(number), "made_at", ""),
                spent.wall_s / batches,
                spent.cpu_s / batches,
            )
        )
    return _largest_first(times)


def _sampled(
    loader: LoaderFactory, budget_s: float, clock: Clock, watch: Watch
) -> tuple[Sampled, float]:
    """Return the stacks seen while a lane was pulled, and the seconds that a batch took."""
    lane = PullingThread(loader, clock, watch)
    try:
        lane.start_pulling(0.2 * budget_s)()
        with sampled() as seen:
            pulled = lane.start_pulling(budget_s)()
    finally:
        lane.close()
    return seen, pulled.wall_s / pulled.batches


def _same_nodes(lane: Graph, graph: Graph) -> dict[int, Node]:
    """Return the nodes of the loader as it is by the ids of those of the lane that are the same."""
    waiting: dict[str, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        waiting[_what(node)].append(node)
    return {
        node.id: waiting[_what(node)].pop(0)
        for node in lane.nodes
        if node.kind not in _INFRASTRUCTURE and waiting[_what(node)]
    }


def _what(node: Node) -> str:
    return f"{node} {node.random_access}"


def _by_stacks(seen: Sampled, batch_s: float) -> tuple[StageTime, ...]:
    total_s = sum(seen.wall_s.values())
    grouped: dict[tuple[str, ...], list[UsersPath]] = defaultdict(list)
    prefix = _main_path(seen.wall_s)
    for path in seen.wall_s:
        names = functions(path)
        grouped[prefix if prefix and names[: len(prefix)] == prefix else names].append(path)
    times = [
        StageTime(
            " > ".join(names),
            None,
            None,
            names[-1],
            f"{paths[0][len(names) - 1].file}:{paths[0][len(names) - 1].line}",
            sum(seen.wall_s[one] for one in paths) / total_s * batch_s,
            sum(seen.cpu_s[one] for one in paths) / total_s * batch_s,
        )
        for names, paths in grouped.items()
    ]
    return _largest_first(times)[: 1 + _MOST_OTHERS]


def _main_path(wall_s: Mapping[UsersPath, float]) -> tuple[str, ...]:
    """Return the functions that at least half of the time is spent in, the outermost first."""
    total_s, prefix = sum(wall_s.values()), tuple[str, ...]()
    while True:
        below: dict[str, float] = defaultdict(float)
        for path, seconds in wall_s.items():
            names = functions(path)
            if names[: len(prefix)] == prefix and len(names) > len(prefix):
                below[names[len(prefix)]] += seconds
        most = max(below, key=lambda name: below[name], default=None)
        if most is None or below[most] < _HALF * total_s:
            return prefix
        prefix = (*prefix, most)


def _largest_first(times: Sequence[StageTime]) -> tuple[StageTime, ...]:
    ordered = sorted(times, key=lambda one: one.s_per_batch, reverse=True)
    names = Counter(one.name for one in ordered)
    return tuple(
        replace(one, name=f"{one.name} #{place}") if names[one.name] > 1 else one
        for place, one in enumerate(ordered, 1)
    )
