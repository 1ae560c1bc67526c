"""How the workers are set up."""

from collections.abc import Iterator

from netpipe.harness.finding import Inspected, LintFinding
from netpipe.harness.graph import Graph, Node


def threads_in_workers(pipeline: Inspected) -> Iterator[LintFinding]:
    """Every worker reads with threads of its own. A warning: remote storage may want them."""
    from_loader = bool(pipeline.graph.of_kind("DataLoader"))
    argument = "DataLoader(read_options=" if from_loader else ".to_iter_dataset("
    for node in pipeline.graph.of_kind("ToIter"):
        threads = node.parameters.get("num_threads")
        if not node.in_worker or not isinstance(threads, int) or threads == 0:
            continue
        prefetch = _nearest_above(pipeline.graph, node)
        yield LintFinding(
            "threads-in-workers",
            "warning",
            (prefetch.id, node.id),
            f"to_iter_dataset reads with {threads} threads in each of the"
            f" {prefetch.parameters['num_workers']} workers of mp_prefetch: they contend for the"
            " worker's interpreter lock, and pay only where reading waits (remote storage)",
            f"Read without threads: {argument}grain.ReadOptions(num_threads=0))",
        )


def _nearest_above(graph: Graph, node: Node) -> Node:
    """Return the mp_prefetch in whose workers a node runs: nodes further down come later."""
    return [one for one in graph.of_kind("ProcessPrefetch") if node in graph.below(one)][-1]
