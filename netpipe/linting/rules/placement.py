"""Rules about the position of `mp_prefetch` among the other calls."""

from collections.abc import Iterator
from typing import Final

from netpipe.grain_access.nodes import Graph, Node
from netpipe.linting.rules.finding import Pipeline, Problem, Severity
from netpipe.linting.rules.graph_parts import (
    BATCHES,
    DEPENDS_ON_ORDER,
    SPARSE,
    USER_CODE,
    choose_call,
    find_in_workers,
    is_work,
    write_batch_call,
)

# Kinds of IterDataset that MapDatasets have too, with the same result for the same element.
_ALSO_ON_MAP_DATASETS: Final = ("Map", "RandomMap", "Options", "Seed", "ToIter", "ProcessPrefetch")


def batch_after_mp_prefetch(pipeline: Pipeline) -> Iterator[Problem]:
    """Report batches that are made in the training process, not in the workers.

    For the intent "reproducible" this is only info, because such batches do not depend on the
    number of workers.
    """
    for node, prefetch in _find_first_after_workers(pipeline.graph, *BATCHES):
        below = pipeline.graph.below(node)
        sends_blocks = any(other.in_worker and other.kind in BATCHES for other in below)
        for_speed: Severity = "warning" if sends_blocks else "error"
        yield Problem(
            for_speed if pipeline.for_throughput else "info",
            (node, prefetch),
            f"{node} comes after mp_prefetch: the workers send"
            f" {'blocks' if sends_blocks else 'single elements'}, and the one process that trains"
            " makes every batch",
            _propose_batch_in_workers(pipeline.graph, node),
        )


def _propose_batch_in_workers(graph: Graph, batch: Node) -> str:
    call = write_batch_call(batch)
    if all(
        node.kind not in SPARSE if node.random_access else node.kind in _ALSO_ON_MAP_DATASETS
        for node in graph.below(batch)
    ):
        return (
            f"Batch the MapDataset: {call}.to_iter_dataset(...), with .mp_prefetch(...) after it,"
            " so that the batches do not depend on the number of workers; or move"
            f" .mp_prefetch(...) after the batch: {call}.mp_prefetch(...)"
        )
    warning = ""
    if batch.parameters.get("drop_remainder") is True:
        warning = "; each worker then drops its own remainder, so repeat the data forever"
    return f"Move .mp_prefetch(...) after the batch: {call}.mp_prefetch(...){warning}"


def map_after_mp_prefetch(pipeline: Pipeline) -> Iterator[Problem]:
    """Report user code that runs in the training process, not in the workers.

    Code that calls jax belongs there. For the intent "reproducible" this is only info if the
    result in the workers would depend on their number.
    """
    for node, prefetch in _find_first_after_workers(pipeline.graph, *USER_CODE):
        otherwise: Severity = "info" if node.kind in DEPENDS_ON_ORDER else "warning"
        yield Problem(
            "error" if pipeline.for_throughput else otherwise,
            (node, prefetch),
            f"{node} comes after mp_prefetch: it runs in the one process that trains, one element"
            " after the other, and not in the workers",
            f"Move .mp_prefetch(...) after the {node.kind}: only a device_put comes after it",
        )


def nested_mp_prefetch(pipeline: Pipeline) -> Iterator[Problem]:
    """Report workers that would have to start workers."""
    for outer in filter(_is_prefetch, pipeline.graph.nodes):
        for inner in filter(_is_prefetch, pipeline.graph.below(outer)):
            yield Problem(
                "error",
                (outer, inner),
                "mp_prefetch comes after another mp_prefetch: workers are daemonic processes,"
                " which cannot start processes of their own",
                "Remove the inner .mp_prefetch(...): the last one runs everything before it in"
                " workers (parallel branches of a mix may have one each)",
            )


def device_put_before_mp_prefetch(pipeline: Pipeline) -> Iterator[Problem]:
    """Report batches that are put on a device in the workers."""
    fix = choose_call(
        pipeline.graph,
        "Call device_put on the batches of the DataLoader",
        "Move the device_put after .mp_prefetch(...): it is the last call",
    )
    for pool, nodes in find_in_workers(pipeline.graph, lambda n: n.parameters.get("device_put")):
        yield Problem(
            "error",
            (pool.prefetch, *nodes),
            f"{', '.join(dict.fromkeys(map(str, nodes)))}: elements are put on a device in"
            f" {pool}; a Device cannot be sent to a worker, and without one every worker takes"
            " accelerator memory while the arrays come back through host memory",
            fix,
        )


def _find_first_after_workers(graph: Graph, *kinds: str) -> Iterator[tuple[Node, Node]]:
    """Yield the first node after the workers that they could run, with its mp_prefetch.

    Later nodes cannot move into the workers unless this one does.
    """
    for node in graph.of_kind(*kinds):
        if _runs_in_trainer(node):
            between = list(graph.below(node, _is_prefetch))
            prefetch = next(filter(_is_prefetch, between), None)
            if prefetch is not None and not any(map(_runs_in_trainer, between)):
                yield node, prefetch


def _is_prefetch(node: Node) -> bool:
    return node.kind == "ProcessPrefetch"


def _runs_in_trainer(node: Node) -> bool:
    return is_work(node) and not node.in_worker
