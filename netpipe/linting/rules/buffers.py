"""Rules about what is made before the trainer asks for it."""

from collections.abc import Iterator
from typing import Final

from netpipe.linting.graph.nodes import Graph, Node
from netpipe.linting.rules.finding import LintFinding, Pipeline, Severity
from netpipe.linting.rules.node_kinds import USER_CODE, is_work
from netpipe.linting.rules.worker_pools import find_batch, read_without_threads

THREAD_PREFETCH: Final = (
    "grain.experimental.ThreadPrefetchIterDataset(dataset, prefetch_buffer_size=2)"
)
# 64 batches feed even a step of 20 ms for more than a second.
_MAX_BUFFERED_BATCHES: Final = 64
# Iterating a MapDataset means to_iter_dataset() with its default buffer.
_DEFAULT_BUFFER_ELEMENTS: Final = 500


def no_prefetch(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Report work that is done only when the trainer asks for a batch.

    A warning, but only info if all that is done then is batching. Other rules report missing or
    misplaced workers.
    """
    graph = pipeline.graph
    if graph.of_kind("NoWorkers", "DataLoader"):
        return
    on_request = list(_run_on_request(graph))
    if not all(node.parents for node in on_request):
        problem = "nothing reads ahead: every batch is made"
        if any(map(reads_ahead, graph.below(graph.nodes[0]))):
            problem = "not every branch reads ahead: the elements of the others are made"
        yield _report_late_work("warning", graph, graph.nodes[0], problem)
        return
    late = [
        node
        for node in on_request
        if is_work(node) and all(below.kind != "ProcessPrefetch" for below in graph.below(node))
    ]
    heavy = [node for node in late if node.kind in USER_CODE]
    for node in (heavy or late)[:1]:
        problem = f"{node} comes after the call that reads ahead: it runs"
        yield _report_late_work("warning" if heavy else "info", graph, node, problem)


def _run_on_request(graph: Graph) -> Iterator[Node]:
    """Yield the nodes that run in the trainer's own thread: those above all that read ahead."""
    root = graph.nodes[0]
    # Iterating a MapDataset starts threads that read ahead.
    if not (root.random_access or reads_ahead(root)):
        yield root
        yield from (node for node in graph.below(root, reads_ahead) if not reads_ahead(node))


def reads_ahead(node: Node) -> bool:
    """Whether a node makes elements before they are asked for; an unknown class may."""
    if node.kind in ("ToIter", "Elastic"):
        return _buffer_size(node) > 0
    # An Interleave reads each of its datasets in a thread.
    names = {
        "ThreadPrefetch": "prefetch_buffer_size",
        "Interleave": "iter_buffer_size",
        "MultithreadPrefetch": "buffer_size",
    }
    if node.kind in names:
        return node.parameters.get(names[node.kind]) != 0
    return node.kind == "ProcessPrefetch" or node.kind.startswith("Unknown:")


def _report_late_work(severity: Severity, graph: Graph, node: Node, problem: str) -> LintFinding:
    return LintFinding(
        "no-prefetch",
        severity,
        (node.id,),
        f"{problem} when the trainer asks for it, while the device waits",
        f"End with {THREAD_PREFETCH}{_or_workers(graph)}; only a device_put comes after it",
    )


def _or_workers(graph: Graph) -> str:
    """Propose workers too, if they can divide the sources: a stream cannot be sliced."""
    if graph.of_kind("Elastic"):
        call = "ElasticIterator(multiprocessing_options=grain.MultiprocessingOptions(2))"
        return f", or give it workers: {call}"
    if not all(node.parents or node.random_access for node in graph.nodes):
        return ""
    return (
        ", or with .mp_prefetch(grain.MultiprocessingOptions(num_workers=2)) for more work than"
        " one core can do"
    )


def oversized_read_buffer(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Report read-ahead buffers that hold batches where the user counted elements.

    A warning; info for a MapDataset that is iterated directly, with Grain's default buffer.
    """
    graph, root = pipeline.graph, pipeline.graph.nodes[0]
    for node in graph.of_kind("ToIter"):
        size = _buffer_size(node)
        if (batch := find_batch(graph, node)) and size > _MAX_BUFFERED_BATCHES:
            yield _report_buffer("warning", graph, (node, batch), size, "to_iter_dataset")
    if root.random_access and (batch := find_batch(graph, root)):
        subject = "iterating a MapDataset"
        yield _report_buffer("info", graph, (root, batch), _DEFAULT_BUFFER_ELEMENTS, subject)


def _report_buffer(
    severity: Severity, graph: Graph, nodes: tuple[Node, Node], buffer: int, subject: str
) -> LintFinding:
    node, batch = nodes
    options = "grain.ReadOptions(num_threads=4, prefetch_buffer_size=4)"
    few_batches = f"Keep a few batches ready: .to_iter_dataset({options})"
    return LintFinding(
        "oversized-read-buffer",
        severity,
        tuple(dict.fromkeys((node.id, batch.id))),
        f"{subject} reads {buffer:,} elements ahead{' in every worker' if node.in_worker else ''},"
        f" each of which is a batch of {batch.parameters.get('batch_size')}: all of them are kept"
        " in memory",
        read_without_threads(graph, node) if node.in_worker else few_batches,
    )


def _buffer_size(node: Node) -> int:
    """Return how many elements threads read ahead; without threads the buffer is not used."""
    size = node.integer("prefetch_buffer_size")
    return size if size and node.parameters.get("num_threads") else 0
