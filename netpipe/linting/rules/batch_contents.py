"""Rules about the contents of batches: lost remainders, and dependence on the worker count."""

from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from math import ceil, floor, inf
from typing import Final

from netpipe.grain_access.nodes import ENDLESS, Graph, Node
from netpipe.linting.rules.finding import Pipeline, Problem, Severity
from netpipe.linting.rules.graph_parts import (
    BATCHES,
    SPARSE,
    Pool,
    choose_call,
    worker_pools,
    write_batch_call,
)

# A user who drops a remainder accepts the loss of some elements.
_MAX_HARMLESS_LOSS_FRACTION: Final = 0.01
_ONE_OUTPUT_PER_INPUT: Final = (
    "Map", "RandomMap", "MapWithIndex", "Shuffle", "WindowShuffle", "Cache", "ToIter",
    "ThreadPrefetch", "Options", "Seed",
)  # fmt: skip


def batch_in_workers_loses_data(pipeline: Pipeline) -> Iterator[Problem]:
    """Report batches in workers where each worker drops its own remainder.

    The severity is error if the loss can be counted, warning if it can only be bounded, and info if
    it is at most 1% or the data may be endless. A loss that one process has too is not reported.
    """
    for pool in worker_pools(pipeline.graph):
        for node in pool.nodes:
            drops = node.kind in BATCHES and node.parameters.get("drop_remainder") is True
            is_batch = (node.integer("batch_size") or 1) > 1 and not node.random_access
            if drops and is_batch and pool.size > 1:
                yield from _report_loss(pipeline.graph, pool, node)


def _report_loss(graph: Graph, pool: Pool, node: Node) -> Iterator[Problem]:
    """Report the elements that a batch in several workers drops.

    With N elements, w workers and batches of b, worker i has ceil((N - i) / w) elements and drops
    those after its last whole batch: at most w * (b - 1) in total.
    """
    if count_elements(graph)[node.parents[0]] == inf:
        return
    size, total = node.integer("batch_size") or 1, _count_shared_elements(graph, pool, node)
    if total is None:
        lost = pool.size * (size - 1)
        loss = f"up to {lost:,} elements, where one process drops at most {size - 1:,}"
        severity = _judge_bound(graph, node, lost)
    else:
        lost = sum(-(-(total - index) // pool.size) % size for index in range(pool.size))
        loss = f"{lost:,} of {total:,} elements, where one process drops {total % size:,}"
        if lost == total % size:
            return
        severity = "error" if lost > _MAX_HARMLESS_LOSS_FRACTION * total else "info"
    yield Problem(
        severity,
        (pool.prefetch, node),
        f"{node} with drop_remainder=True runs in {pool}: each drops its own remainder at the end"
        f" of the data, in total {loss}",
        _propose_whole_batches(graph, size, can_batch_by_position=total is not None),
    )


def _propose_whole_batches(graph: Graph, size: int, *, can_batch_by_position: bool) -> str:
    if can_batch_by_position and graph.data_loader is None:
        batch = f".batch(batch_size={size}, drop_remainder=True).to_iter_dataset(...)"
        return f"Batch before the data are divided among the workers: {batch}"
    # This is a DataLoader, or a batch of filtered or packed elements.
    batch = choose_call(graph, f"grain.transforms.Batch({size}", f".batch(batch_size={size}")
    repeat = choose_call(graph, "IndexSampler(num_epochs=None)", ".repeat()")
    return f"Keep the remainders: {batch}, drop_remainder=False), or repeat forever: {repeat}"


def _count_shared_elements(graph: Graph, pool: Pool, node: Node) -> int | None:
    """Return the number of elements that workers divide; None unless all reach the batch."""
    between = list(graph.below(node, lambda below: below.kind == "ToIter"))
    takes_turns = pool.uses_processes and not pool.is_sequential
    if not takes_turns or any(below.kind not in _ONE_OUTPUT_PER_INPUT for below in between):
        return None
    total = count_elements(graph)[between[-1].id]
    return None if total is None or total == inf else int(total)


def _judge_bound(graph: Graph, node: Node, lost: int) -> Severity:
    for below in graph.below(node):
        has_end = bool(below.parents) or below.parameters.get("length") is not None
        if not has_end or below.kind.startswith("Unknown:"):
            return "info"
    counts = count_elements(graph)
    counted = graph.below(node, lambda below: counts[below.id] is not None)
    read = sum(counts[below.id] or 0 for below in counted)
    return "warning" if lost > _MAX_HARMLESS_LOSS_FRACTION * read else "info"


def count_elements(graph: Graph) -> Mapping[int, float | None]:
    """Return the number of elements that each node yields in one process, by node id.

    A number is inf for endless data, and None if it depends on the elements or an unknown class.
    """
    counts: dict[int, float | None] = {}
    order = TopologicalSorter({node.id: node.parents for node in graph.nodes}).static_order()
    for number in order:
        node = graph.nodes[number]
        count = _count(node, [counts[parent] for parent in node.parents])
        counts[number] = inf if count is not None and count >= ENDLESS else count
    return counts


def _count(node: Node, inputs: list[float | None]) -> float | None:
    length, epochs = node.integer("length"), node.integer("num_epochs")
    known = [count for count in inputs if count is not None]
    match node.kind:
        case _ if length is not None:
            return length
        case "Repeat" if epochs is None:
            return inf
        case _ if not known or len(known) < len(inputs):
            return None
        case "Slice":
            start, stop, step = (node.integer(name) for name in ("start", "stop", "step"))
            if start is None or stop is None or not step:
                return None
            return len(range(start, stop, step))
        case "Limit":
            return min(known[0], node.integer("count") or inf)
        case _ if min(known) == inf:
            return inf
        case "Repeat":
            return known[0] * (epochs or 1)
        case "Batch":
            round_off = floor if node.parameters.get("drop_remainder") else ceil
            return round_off(known[0] / (node.integer("batch_size") or 1))
        case "Concatenate":
            return sum(known)
        case "Zip":
            return min(known)
        case kind:
            return known[0] if kind in _ONE_OUTPUT_PER_INPUT else None


# All kinds were run with 0 to 3 workers on Grain 0.2.18. Those not listed (maps, random maps, zips,
# caches) yielded the same elements in the same order.
_WORKER_DEPENDENCE: Final[Mapping[str, str]] = {
    "Batch": "batches the elements of one worker",
    "Rebatch": "batches the elements of one worker",
    "Pack": "packs the elements of one worker",
    "ConcatThenSplit": "joins the elements of one worker",
    "WindowShuffle": "shuffles the elements of one worker",
    "MapWithIndex": "counts the elements of one worker",
    "Filter": "keeps a different number in each worker, and the workers take turns",
    "FlatMap": "makes a different number in each worker, and the workers take turns",
    "Mix": "mixes the elements of one worker",
    "Interleave": "takes turns within one worker",
    "Limit": "applies to every worker separately",
    "Repeat": "starts a new epoch when one worker has finished its own",
    "Operation": "sees the elements of one worker",
    "Source": "divides its files among the workers",
}


def worker_count_changes_order(pipeline: Pipeline) -> Iterator[Problem]:
    """Report nodes that make the batches, or their order, depend on the number of workers.

    An unknown class is info for either intent: only `netpipe lint --prove` can decide.
    """
    for pool in worker_pools(pipeline.graph):
        nodes = [node for node in pool.nodes if _depends_on_workers(pipeline.graph, node)]
        reasons = [f"{node} {_WORKER_DEPENDENCE[node.kind]}" for node in nodes]
        if pool.is_sequential and not any(node.kind == "Shuffle" for node in pool.nodes):
            reasons.append("sequential_slice gives each worker one contiguous slice of the source")
        if not reasons:
            yield from _report_unknown_code(pool)
            continue
        yield Problem(
            "info" if pipeline.for_throughput else "error",
            (pool.prefetch, *nodes),
            "the batches depend on the number of workers, each of which has its own share of"
            f" the elements; in {pool}: {'; '.join(reasons)}",
            _propose_stable_order(pipeline, nodes),
        )


def _report_unknown_code(pool: Pool) -> Iterator[Problem]:
    unknown = [n for n in pool.nodes if n.kind.startswith("Unknown:") and not n.random_access]
    if unknown:
        names = ", ".join(dict.fromkeys(node.kind.removeprefix("Unknown:") for node in unknown))
        yield Problem(
            "info",
            (pool.prefetch, *unknown),
            f"the batches may depend on the number of workers: {pool} run code whose"
            f" effect is not known: {names}",
            "Test it on the data: netpipe lint --prove",
        )


def _depends_on_workers(graph: Graph, node: Node) -> bool:
    kinds = SPARSE if node.random_access else _WORKER_DEPENDENCE
    if node.kind not in kinds:
        return False
    if node.kind == "Source":
        # Below an Interleave the workers divide the interleaved datasets instead.
        return all(above.kind != "Interleave" for above in graph.above(node))
    return node.parameters.get("batch_size") != 1 and node.parameters.get("num_epochs") != 1


def _propose_stable_order(pipeline: Pipeline, nodes: list[Node]) -> str:
    graph, keep = pipeline.graph, "keep the number of workers, and record it with the checkpoints"
    if pipeline.for_throughput:
        return keep.capitalize()
    if any(node.kind == "Source" for node in nodes):
        return f"Open the files as a MapDataset, or {keep}"
    if not nodes:
        return f"Remove sequential_slice=True, or {keep}"
    if all(node.kind == "Batch" for node in nodes):
        move = choose_call(graph, "Use grain.MapDataset, with ", "Batch the MapDataset: ")
        return f"{move}{write_batch_call(nodes[0])}.to_iter_dataset(...), or {keep}"
    kinds = ", ".join(dict.fromkeys(node.kind for node in reversed(nodes)))
    after = choose_call(graph, "after the DataLoader", "after .mp_prefetch(...)")
    return f"Move these {after}: {kinds}, or {keep}"
