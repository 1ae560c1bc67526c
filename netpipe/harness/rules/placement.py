"""What stands on the wrong side of `mp_prefetch`."""

from collections.abc import Iterator

from netpipe.harness.finding import Inspected, LintFinding, Severity
from netpipe.harness.graph import Graph, Node


def batch_after_mp_prefetch(pipeline: Inspected) -> Iterator[LintFinding]:
    """Batches are made in the training process, not in the workers.

    An error for throughput. It is what keeps the batches independent of the number of workers,
    so where that is the intent it is a remark.
    """
    for node, prefetch in _after_workers(pipeline.graph, "Batch", "Rebatch"):
        yield LintFinding(
            "batch-after-mp-prefetch",
            "error" if pipeline.for_throughput else "info",
            (node.id, prefetch.id),
            f"{node} comes after mp_prefetch: the workers send single elements, and the one"
            " process that trains makes every batch",
            f"Move .mp_prefetch(...) behind the batch: .batch(batch_size="
            f"{node.parameters.get('batch_size')}).mp_prefetch(...)",
        )


_ORDER_DEPENDS_ON_WORKERS = (
    "RandomMap",
    "MapWithIndex",
    "Filter",
    "FlatMap",
    "Pack",
    "ConcatThenSplit",
    "Operation",
)


def map_after_mp_prefetch(pipeline: Inspected) -> Iterator[LintFinding]:
    """User code runs in the training process, not in the workers.

    An error for throughput. For reproducible it is a remark about what would depend on the number
    of workers inside them, and a warning about a plain map, which would not. A map that puts
    elements on a device belongs there, as devices cannot be sent to workers.
    """
    for node, prefetch in _after_workers(pipeline.graph, "Map", *_ORDER_DEPENDS_ON_WORKERS):
        if node.parameters.get("device_put"):
            continue
        kept_for_order = node.kind in _ORDER_DEPENDS_ON_WORKERS
        otherwise: Severity = "info" if kept_for_order else "warning"
        yield LintFinding(
            "map-after-mp-prefetch",
            "error" if pipeline.for_throughput else otherwise,
            (node.id, prefetch.id),
            f"{node} comes after mp_prefetch: it runs in the one process that trains, one element"
            " after the other, and not in the workers",
            f"Move .mp_prefetch(...) behind the {node.kind}: it is the last call before any"
            " device_put",
        )


def nested_mp_prefetch(pipeline: Inspected) -> Iterator[LintFinding]:
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


def _after_workers(graph: Graph, *kinds: str) -> Iterator[tuple[Node, Node]]:
    """Yield each node of the training process with the nearest mp_prefetch below it."""
    for node in graph.of_kind(*kinds):
        prefetch = next((one for one in graph.below(node) if one.kind == "ProcessPrefetch"), None)
        if prefetch is not None and not node.in_worker:
            yield node, prefetch
