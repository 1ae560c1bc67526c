"""Rules about what the workers are sent: everything before `mp_prefetch` is pickled for each."""

from collections.abc import Iterator
from typing import Final

from netpipe.linting.rules.finding import Pipeline, Problem
from netpipe.linting.rules.graph_parts import process_pools

# A worker without data takes 74 MB, plus about two bytes for each byte that it is sent (Grain
# 0.2.18): above this, what is sent takes as much memory as the worker itself.
LARGE_BYTES: Final = 32 * 2**20
_OPEN_SOURCE: Final = (
    "Let the source keep a path and open it in the worker when the first element is read,"
    " as grain.sources.ArrayRecordDataSource does"
)
_LOAD_IN_WORKER: Final = (
    "Keep a path in the transform, and load it in the worker when the first element comes:"
    ' np.load(path, mmap_mode="r") is shared by all workers'
)


def cannot_be_pickled(pipeline: Pipeline) -> Iterator[Problem]:
    """Report objects that cannot be sent to the workers. An error for either intent."""
    for pool in process_pools(pipeline.graph):
        nodes = [
            node
            for node in (pool.prefetch, *pool.nodes)
            if node.unpicklable and not node.parameters.get("device_put")
        ]
        if nodes:
            reasons = dict.fromkeys(f"{node}: {node.unpicklable}" for node in nodes)
            yield Problem(
                "error",
                (pool.prefetch, *nodes),
                f"objects that cannot be pickled cannot be sent to {pool}; {'; '.join(reasons)}",
                "Create locks, open files and connections in the worker: keep None, and create"
                " them when the first element comes",
            )


def large_capture(pipeline: Pipeline) -> Iterator[Problem]:
    """Report large objects that every worker is sent a copy of. A warning for either intent."""
    for pool in process_pools(pipeline.graph):
        nodes = (pool.prefetch, *pool.nodes)
        total = sum(node.sent_bytes or 0 for node in nodes)
        largest = max(nodes, key=lambda node: node.sent_bytes or 0)
        if total >= LARGE_BYTES:
            yield Problem(
                "warning",
                (pool.prefetch, largest),
                f"{_megabytes(total)} must be pickled and sent to {pool.each} before the first"
                f" batch, and every worker keeps a copy: {_megabytes(total * pool.size)} in total."
                f" {largest} holds {_megabytes(largest.sent_bytes or 0)} of it",
                _OPEN_SOURCE if largest.kind == "Source" else _LOAD_IN_WORKER,
            )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
