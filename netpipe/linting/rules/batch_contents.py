"""What batches hold: what is lost in the workers, and what depends on how many there are."""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Final

from netpipe.linting.graph.nodes import Graph, Node
from netpipe.linting.rules.element_counts import ONE_TO_ONE, count_elements, count_elements_by_node
from netpipe.linting.rules.finding import LintFinding, Pipeline, Severity
from netpipe.linting.rules.node_kinds import BATCHES, batch_call
from netpipe.linting.rules.worker_pools import (
    Pool,
    choose_call,
    worker_pools,
)

_HARMLESS_LOSS_RATIO: Final = 0.01  # of the elements: a user who drops a remainder accepts some


def batch_in_workers_loses_data(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Each worker drops a remainder of its own.

    An error where the loss can be counted, a warning where it can only be bounded. A remark where
    that is at most 1%, or where it is not known whether the data end; nothing where no more is
    lost than in one process.
    """
    for pool in worker_pools(pipeline.graph):
        for node in pool.nodes:
            if _drops_remainder(node) and pool.size > 1:
                yield from _loss(pipeline.graph, pool, node)


def _drops_remainder(node: Node) -> bool:
    drops = node.kind in BATCHES and node.parameters.get("drop_remainder") is True
    return drops and not node.random_access and _batch_size(node) > 1


def _loss(graph: Graph, pool: Pool, node: Node) -> Iterator[LintFinding]:
    """Say what a batch in several workers drops.

    With N elements, w workers and batches of b, worker i has (N - i) / w of them, rounded up, and
    drops what is left of that after whole batches: at most w * (b - 1) together.
    """
    if count_elements(graph, graph.nodes[node.parents[0]]) == inf:
        return
    size, total = _batch_size(node), _shared_elements(graph, pool, node)
    lost = pool.size * (size - 1)
    told = f"up to {lost:,} elements, where one process drops at most {size - 1:,}"
    if total is not None:
        lost = sum(-(-(total - one) // pool.size) % size for one in range(pool.size))
        told = f"{lost:,} of {total:,} elements, where one process drops {total % size:,}"
        if lost == total % size:
            return
    yield LintFinding(
        "batch-in-workers-loses-data",
        _severity(graph, node, lost, total),
        (pool.prefetch.id, node.id),
        f"{node} with drop_remainder=True runs in {pool}: each drops a remainder of its own at"
        f" the end of the data, in all {told}",
        _whole(graph, size, by_place=total is not None),
    )


def _whole(graph: Graph, size: int, by_place: bool) -> str:
    """Say how no worker drops anything; what filters or packs cannot be batched by place."""
    kept = f"Keep the remainders: .batch(batch_size={size}, drop_remainder=False)"
    if graph.data_loader is not None:
        kept = f"Keep the remainders: grain.transforms.Batch({size}, drop_remainder=False)"
        return f"{kept}, or repeat without end: IndexSampler(num_epochs=None)"
    if by_place:
        batch = f".batch(batch_size={size}, drop_remainder=True).to_iter_dataset(...)"
        return f"Batch before the data are shared out: {batch}"
    return f"{kept}, or .repeat() the data without end"


def _severity(graph: Graph, node: Node, lost: int, total: int | None) -> Severity:
    if total is not None:
        return "error" if lost > _HARMLESS_LOSS_RATIO * total else "info"
    if not all(map(_is_known, graph.below(node))):
        return "info"
    return "warning" if lost > _HARMLESS_LOSS_RATIO * _read(graph, node) else "info"


def _read(graph: Graph, node: Node) -> float:
    """Return how many elements are read for a node, where they can be counted at all."""
    known = count_elements_by_node(graph)
    counted = graph.below(node, lambda one: known[one.id] is not None)
    return sum(known[one.id] or 0 for one in counted)


def _is_known(node: Node) -> bool:
    """Whether the data are sure to end if they end below this node."""
    is_measured = bool(node.parents) or node.parameters.get("length") is not None
    return is_measured and not node.kind.startswith("Unknown:")


def _shared_elements(graph: Graph, pool: Pool, node: Node) -> int | None:
    """Return how many elements the workers share out, if all of them come to the batch."""
    between = list(graph.below(node, lambda one: one.kind == "ToIter"))
    by_place = pool.by_processes and not pool.is_sequential
    if not by_place or any(one.kind not in ONE_TO_ONE for one in between):
        return None
    total = count_elements(graph, between[-1])
    return None if total is None or total == inf else int(total)


def _batch_size(node: Node) -> int:
    size = node.parameters.get("batch_size")
    return size if isinstance(size, int) else 1


# ---- What depends on the number of workers. Each was run with 0 to 3 workers on Grain 0.2.18;
# what is not here (maps, random maps, zips, caches) gave the same elements in the same order.

_BY_SHARE: Final[Mapping[str, str]] = {
    "Batch": "batches what one worker has",
    "Rebatch": "batches what one worker has",
    "Pack": "packs together what one worker has",
    "ConcatThenSplit": "joins what one worker has",
    "WindowShuffle": "shuffles what one worker has",
    "MapWithIndex": "counts what one worker has",
    "Filter": "leaves each worker a number of its own, and they take turns",
    "FlatMap": "gives each worker a number of its own, and they take turns",
    "Mix": "mixes what one worker has",
    "Interleave": "takes turns within one worker",
    "Limit": "lets every worker have so many",
    "Repeat": "begins a new epoch when one worker has ended its own",
    "Operation": "sees what one worker has",
    "Source": "shares out its files",
}
_EVEN_BY_PLACE: Final = ("Filter", "FlatMap")  # on a MapDataset too: places stay empty


def worker_count_changes_order(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Another number of workers gives other batches, or the same in another order.

    An error where batches must not depend on it, otherwise a remark. What a class does that is
    not known is undecided: a remark, whatever the intent, for the data to prove.
    """
    for pool in worker_pools(pipeline.graph):
        nodes = [node for node in pool.nodes if _depends_on_share(pipeline.graph, node)]
        told = [f"{node} {_BY_SHARE[node.kind]}" for node in nodes]
        if pool.is_sequential and not any(node.kind == "Shuffle" for node in pool.nodes):
            told.append("sequential_slice gives each worker one stretch of the source")
        unknown = [node for node in pool.nodes if _is_undecided(node)]
        if not told and unknown:
            yield _undecided(pool, unknown)
        if told:
            yield LintFinding(
                "worker-count-changes-order",
                "info" if pipeline.for_throughput else "error",
                (pool.prefetch.id, *(node.id for node in nodes)),
                "the batches depend on the number of workers, each of which has its own part of"
                f" the elements; in {pool}: {'; '.join(told)}",
                _stable(pipeline, nodes),
            )


def _is_undecided(node: Node) -> bool:
    return node.kind.startswith("Unknown:") and not node.random_access


def _undecided(pool: Pool, unknown: list[Node]) -> LintFinding:
    names = ", ".join(dict.fromkeys(node.kind.removeprefix("Unknown:") for node in unknown))
    return LintFinding(
        "worker-count-changes-order",
        "info",
        (pool.prefetch.id, *(node.id for node in unknown)),
        f"the batches may depend on the number of workers: in {pool} runs {names}, whose code"
        " decides it",
        "Try it on the data: netpipe lint --prove",
    )


def _depends_on_share(graph: Graph, node: Node) -> bool:
    if node.kind not in _BY_SHARE or (node.random_access and node.kind not in _EVEN_BY_PLACE):
        return False
    if node.kind == "Source":  # below an Interleave the workers share its datasets instead
        return all(one.kind != "Interleave" for one in graph.above(node))
    return node.parameters.get("batch_size") != 1 and node.parameters.get("num_epochs") != 1


def _stable(pipeline: Pipeline, nodes: list[Node]) -> str:
    """Say how the batches stay the same; for throughput nothing that would cost speed."""
    graph, kept = pipeline.graph, "keep the number of workers, and record it with the checkpoints"
    if pipeline.for_throughput:
        return kept.capitalize()
    if any(node.kind == "Source" for node in nodes):
        return f"Open the files as a MapDataset, or {kept}"
    if not nodes:
        return f"Leave out sequential_slice=True, or {kept}"
    if all(node.kind == "Batch" for node in nodes):
        batch = f"{batch_call(nodes[0])}.to_iter_dataset(...)"
        move = choose_call(graph, f"Use grain.MapDataset, with {batch}", f"Batch by place: {batch}")
        return f"{move}, or {kept}"
    kinds = ", ".join(dict.fromkeys(node.kind for node in reversed(nodes)))
    behind = choose_call(graph, "after the DataLoader", "behind .mp_prefetch(...)")
    return f"Do this {behind}: {kinds}, or {kept}"
