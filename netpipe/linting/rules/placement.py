"""What stands on the wrong side of `mp_prefetch`."""

from collections.abc import Iterator
from typing import Final

from netpipe.linting.graph.nodes import Graph, Node
from netpipe.linting.rules.finding import LintFinding, Pipeline, Severity
from netpipe.linting.rules.node_kinds import (
    BATCHES,
    DEPENDS_ON_ORDER,
    USER_CODE,
    batch_call,
    is_work,
)
from netpipe.linting.rules.worker_pools import choose_call, join_names, process_pools

# What an IterDataset does that a MapDataset does as well, to the same elements.
_BY_PLACE: Final = ("Map", "RandomMap", "Options", "Seed", "ToIter", "ProcessPrefetch")
_WITHOUT_PLACES: Final = ("Filter", "FlatMap")  # a MapDataset of these has places that are empty


def batch_after_mp_prefetch(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Batches are made in the training process, not in the workers.

    An error for throughput, a warning if the workers send blocks already. It is what keeps the
    batches independent of the number of workers, so where that is the intent it is a remark.
    """
    for node, prefetch in _first_after_workers(pipeline.graph, *BATCHES):
        below = pipeline.graph.below(node)
        in_blocks = any(one.in_worker and one.kind in BATCHES for one in below)
        for_speed: Severity = "warning" if in_blocks else "error"
        yield LintFinding(
            "batch-after-mp-prefetch",
            for_speed if pipeline.for_throughput else "info",
            (node.id, prefetch.id),
            f"{node} comes after mp_prefetch: the workers send"
            f" {'blocks' if in_blocks else 'single elements'}, and the one process that trains"
            " makes every batch",
            _before_workers(pipeline.graph, node),
        )


def _before_workers(graph: Graph, batch: Node) -> str:
    """Propose the batch by place, where no worker drops a remainder, and then in the workers."""
    call = batch_call(batch)
    if all(map(_may_be_by_place, graph.below(batch))):
        return (
            f"Batch by place: {call}.to_iter_dataset(...), with .mp_prefetch(...) behind it, so"
            " that the batches do not depend on the number of workers; or move .mp_prefetch(...)"
            f" behind the batch: {call}.mp_prefetch(...)"
        )
    each = ""
    if batch.parameters.get("drop_remainder") is True:
        each = "; each worker then drops a remainder of its own, so repeat the data without end"
    return f"Move .mp_prefetch(...) behind the batch: {call}.mp_prefetch(...){each}"


def _may_be_by_place(node: Node) -> bool:
    if node.random_access:
        return node.kind not in _WITHOUT_PLACES
    return node.kind in _BY_PLACE


def map_after_mp_prefetch(pipeline: Pipeline) -> Iterator[LintFinding]:
    """User code runs in the training process, not in the workers.

    An error for throughput. For reproducible it is a remark about what would depend on the number
    of workers inside them, and a warning about a plain or a random map, which would not. What
    calls jax belongs there: devices are the training process's own.
    """
    for node, prefetch in _first_after_workers(pipeline.graph, *USER_CODE):
        otherwise: Severity = "info" if node.kind in DEPENDS_ON_ORDER else "warning"
        yield LintFinding(
            "map-after-mp-prefetch",
            "error" if pipeline.for_throughput else otherwise,
            (node.id, prefetch.id),
            f"{node} comes after mp_prefetch: it runs in the one process that trains, one element"
            " after the other, and not in the workers",
            f"Move .mp_prefetch(...) behind the {node.kind}: it is the last call before any"
            " device_put",
        )


def nested_mp_prefetch(pipeline: Pipeline) -> Iterator[LintFinding]:
    """A worker would have to start workers. An error, whatever the intent."""
    for outer in pipeline.graph.of_kind("ProcessPrefetch"):
        for inner in pipeline.graph.below(outer):
            if inner.kind == "ProcessPrefetch":
                yield LintFinding(
                    "nested-mp-prefetch",
                    "error",
                    (outer.id, inner.id),
                    "mp_prefetch comes after another mp_prefetch: workers are daemonic processes,"
                    " which cannot start processes of their own",
                    "Remove the inner .mp_prefetch(...); one at the end runs all below it in"
                    " workers (branches side by side under a mix may have one each)",
                )


def device_put_before_mp_prefetch(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Batches are put on a device in the workers. An error, whatever the intent."""
    for pool in process_pools(pipeline.graph):
        nodes = [node for node in pool.nodes if node.parameters.get("device_put")]
        if nodes:
            yield LintFinding(
                "device-put-before-mp-prefetch",
                "error",
                pool.ids_with(nodes),
                f"{join_names(nodes)}: elements are put on a device in {pool}; a Device cannot be"
                " sent to a worker, and without one every worker takes memory of the accelerator"
                " while the arrays come back through the host's",
                choose_call(
                    pipeline.graph,
                    "Call device_put on what the DataLoader gives",
                    "Move the device_put behind .mp_prefetch(...): it is the last call",
                ),
            )


def _first_after_workers(graph: Graph, *kinds: str) -> Iterator[tuple[Node, Node]]:
    """Yield each late node with the mp_prefetch below it, if no other late one is between.

    What comes after a late node cannot be moved without it, so it is not named as well.
    """
    for node in graph.of_kind(*kinds):
        if not _is_late(node):
            continue
        between = list(graph.below(node, _is_prefetch))
        prefetch = next(filter(_is_prefetch, between), None)
        if prefetch is not None and not any(map(_is_late, between)):
            yield node, prefetch


def _is_prefetch(node: Node) -> bool:
    return node.kind == "ProcessPrefetch"


def _is_late(node: Node) -> bool:
    return is_work(node) and not node.in_worker
