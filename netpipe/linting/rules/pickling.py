"""What the workers are sent: all that stands below `mp_prefetch` is pickled, once for each."""

from collections.abc import Iterator
from typing import Final

from netpipe.linting.graph.nodes import Node
from netpipe.linting.rules.finding import LintFinding, Pipeline
from netpipe.linting.rules.worker_pools import process_pools

# A worker without data takes 74 MB, and about two bytes for each byte that it is sent (Grain
# 0.2.18): from here on what is sent outweighs the worker itself.
LARGE_BYTES: Final = 32 * 2**20


def cannot_be_pickled(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Something cannot be sent to the workers. An error, whatever the intent."""
    for pool in process_pools(pipeline.graph):
        nodes = [one for one in (pool.prefetch, *pool.nodes) if _cannot_be_sent(one)]
        if nodes:
            told = dict.fromkeys(f"{node}: {node.unpicklable}" for node in nodes)
            yield LintFinding(
                "cannot-be-pickled",
                "error",
                pool.ids_with(nodes),
                f"what cannot be pickled cannot be sent to {pool}; {'; '.join(told)}",
                "Make locks, open files and connections in the worker: keep None, and make"
                " them when the first element comes",
            )


def _cannot_be_sent(node: Node) -> bool:
    return bool(node.unpicklable) and not node.parameters.get("device_put")


def large_capture(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Much is sent to every worker, which keeps a copy. A warning, whatever the intent."""
    for pool in process_pools(pipeline.graph):
        total = sum(map(_sent_bytes, (pool.prefetch, *pool.nodes)))
        if total < LARGE_BYTES:
            continue
        largest = max((pool.prefetch, *pool.nodes), key=_sent_bytes)
        yield LintFinding(
            "large-capture",
            "warning",
            pool.ids_with([largest]),
            f"{_megabytes(total)} must be pickled and sent to {pool.each} before the first"
            f" batch, and every worker keeps a copy: {_megabytes(total * pool.size)} in all."
            f" {largest} holds {_megabytes(_sent_bytes(largest))} of it",
            _fix(largest),
        )


def _fix(node: Node) -> str:
    if node.kind == "Source":
        return (
            "Let the source keep a path and open it in the worker when the first element is read,"
            " as grain.sources.ArrayRecordDataSource does"
        )
    return (
        "Keep a path in the transform, and load it in the worker when the first element comes:"
        ' np.load(path, mmap_mode="r") is shared by all workers'
    )


def _sent_bytes(node: Node) -> int:
    return node.sent_bytes or 0


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
