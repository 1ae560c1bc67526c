"""A measured loader as the parts of the model."""

from collections.abc import Sequence
from statistics import median
from typing import Final

from netpipe.diagnosis.blocks import Block
from netpipe.diagnosis.cost_model import Parts, Work
from netpipe.diagnosis.stage_times import StageTime
from netpipe.diagnosis.thread_scaling import LANE, TWO_PROCESSES, TWO_THREADS
from netpipe.diagnosis.turns import SideBlocks
from netpipe.linting.graph.nodes import Graph, Node

_LEAST_WORKING: Final = 0.2


def workers_of(graph: Graph) -> int:
    """Return the worker processes of a Grain pipeline."""
    return sum(
        count
        for node in graph.of_kind("ProcessPrefetch", "DataLoader")
        if isinstance(count := node.parameters.get("num_workers", 0), int)
    )


def threads_of(graph: Graph) -> int:
    """Return the reader threads of each process of a Grain pipeline that reads."""
    counts = (node.parameters.get("num_threads", 0) for node in graph.of_kind("ToIter"))
    most = max((count for count in counts if isinstance(count, int)), default=0)
    # Grain iterates a MapDataset with its default options.
    return most or (16 if graph.nodes and graph.nodes[0].random_access else 0)


def section_of(node: Node | None, graph: Graph) -> str:
    """Return where a stage runs: "workers", "threads" or "trainer"."""
    if node is not None and node.in_worker:
        return "workers"
    return "threads" if node is not None and _is_threaded(node, graph) else "trainer"


def _is_threaded(node: Node, graph: Graph) -> bool:
    return node.random_access and threads_of(graph) > 0


def parts_of(
    times: Sequence[StageTime],
    graph: Graph,
    lanes: SideBlocks,
    as_it_is: Sequence[Block],
    tiny: Sequence[Block],
    workers: int,
    cores: int,
) -> Parts:
    """Return a loader's parts.

    Args:
        times: What its stages take, as they were timed.
        graph: Of the loader; empty if it is not Grain's.
        lanes: Of `lanes_in_turns`; the times are scaled to the lane's, which nothing was done to.
        as_it_is: Blocks of the loader with `workers`.
        tiny: Blocks of it with a payload of nothing; may be empty.
        workers: Its worker processes.
        cores: That it may use.
    """
    stages = _stages(times, graph, lanes, had_workers=workers_of(graph) > 0)
    in_workers = sum((work for work, movable in stages if movable), Work())
    in_trainer = sum((work for work, movable in stages if not movable), Work())
    send_s = receive_s = payload_send_s = payload_receive_s = 0.0
    if threads_of(graph) and not workers:
        all_cpu_s = in_workers.cpu_s + in_trainer.cpu_s
        receive_s = max(0.0, _median(as_it_is, _CPU[0]) - all_cpu_s)
    if workers:
        whole = [_median(as_it_is, name) for name in _CPU]
        bare = [_median(tiny, name) for name in _CPU] if tiny else whole
        payload_receive_s, payload_send_s = (
            max(0.0, a - b) for a, b in zip(whole, bare, strict=True)
        )
        receive_s = max(0.0, bare[0] - in_trainer.cpu_s)
        send_s = max(0.0, bare[1] - in_workers.cpu_s)
    total = in_workers + in_trainer
    return Parts(
        stages,
        workers,
        threads_of(graph),
        cores,
        send_s,
        receive_s,
        payload_send_s,
        payload_receive_s,
        _gil_fraction(lanes),
        _contention(lanes, total),
    )


_CPU: Final = ("trainer_cpu_s_per_batch", "workers_cpu_s_per_batch")


def _median(blocks: Sequence[Block], name: str) -> float:
    return float(median(getattr(one, name) for one in blocks))


def _stages(
    times: Sequence[StageTime], graph: Graph, lanes: SideBlocks, *, had_workers: bool
) -> tuple[tuple[Work, bool], ...]:
    """Scale the stages so that together they take what a lane takes."""
    wall_s, cpu_s = (sum(getattr(one, name) for one in times) for name in _OF_STAGE)
    lane = lanes.blocks(LANE)
    wall_scale = _median(lane, "s_per_batch") / wall_s if wall_s else 1.0
    cpu_scale = _median(lane, "trainer_cpu_s_per_batch") / cpu_s if cpu_s else 1.0
    works = []
    for one in times:
        wall = one.s_per_batch * wall_scale
        threaded = one.node is not None and _is_threaded(one.node, graph)
        work = Work(wall, one.cpu_s_per_batch * cpu_scale, wall if threaded else 0.0)
        # What Grain itself added to the lane has no node in the loader as it is.
        works.append((work, one.node is None or one.node.in_worker if had_workers else True))
    return tuple(works)


_OF_STAGE: Final = ("s_per_batch", "cpu_s_per_batch")


def _gil_fraction(lanes: SideBlocks) -> float:
    """Return the share of computing that holds the lock: two threads then share one core."""
    if not lanes.has(TWO_THREADS):
        return 1.0
    return min(1.0, max(0.0, 2 / lanes.speedup(TWO_THREADS, LANE).median - 1))


def _contention(lanes: SideBlocks, work: Work) -> float:
    """Return by what share a lane that computes all the time is slowed by another such."""
    if not lanes.has(TWO_PROCESSES):
        return 0.0
    slowed = 2 / lanes.speedup(TWO_PROCESSES, LANE).median - 1
    working = max(_LEAST_WORKING, min(1.0, work.cpu_s / work.wall_s if work.wall_s else 1.0))
    return min(1.0, max(0.0, slowed / working))
