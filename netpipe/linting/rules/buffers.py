"""What is ready before the trainer asks for it."""

from collections.abc import Iterator
from typing import Final

from netpipe.linting.graph.nodes import Graph, Node
from netpipe.linting.rules.finding import LintFinding, Pipeline, Severity
from netpipe.linting.rules.node_kinds import USER_CODE, is_work
from netpipe.linting.rules.worker_pools import find_batch
from netpipe.linting.rules.workers import (
    element_readers,
    read_without_threads,
    reading_calls,
    reads_with_threads,
)

# With so many batches ready even a step of 20 ms is served for more than a second.
MANY_BATCHES: Final = 64
THREAD_PREFETCH: Final = (
    "grain.experimental.ThreadPrefetchIterDataset(dataset, prefetch_buffer_size=2)"
)
_GRAINS_BUFFER: Final = 500  # elements: what iterating a MapDataset has, as to_iter_dataset()


def no_prefetch(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Something is made only when the trainer asks for it.

    A warning, but a remark where it is no more than putting a batch together. Where workers are
    missing or come too early, other rules say so.
    """
    graph = pipeline.graph
    if graph.of_kind("NoWorkers", "DataLoader"):
        return
    asked = list(_when_asked(graph))
    if not all(node.parents for node in asked):
        told = "nothing reads ahead: every batch is made"
        if any(map(_reads_ahead, graph.below(graph.nodes[0]))):
            told = "not every branch reads ahead: what the others give is made"
        yield _late("warning", graph, graph.nodes[0], told)
    elif work := [node for node in asked if is_work(node) and not _follows_workers(graph, node)]:
        heavy = [node for node in work if node.kind in USER_CODE]
        first = (heavy or work)[0]
        told = f"{first} comes after what reads ahead: it is done"
        yield _late("warning" if heavy else "info", graph, first, told)


def _when_asked(graph: Graph) -> Iterator[Node]:
    """Yield what runs in the trainer's own thread: all above what reads ahead."""
    root = graph.nodes[0]
    if not (root.random_access or _reads_ahead(root)):  # threads iterate a MapDataset
        yield root
        yield from (n for n in graph.below(root, _reads_ahead) if not _reads_ahead(n))


def _reads_ahead(node: Node) -> bool:
    """Whether elements are made before they are asked for; a class that is not known may."""
    if node.kind in ("ToIter", "Elastic"):
        return _reading_buffer(node) > 0
    if node.kind == "ThreadPrefetch":
        return node.parameters.get("prefetch_buffer_size") != 0
    if node.kind == "Interleave":  # a thread of Grain's reads each dataset that is interleaved
        return node.parameters.get("iter_buffer_size") != 0
    if node.kind == "MultithreadPrefetch":
        return node.parameters.get("buffer_size") != 0
    return node.kind == "ProcessPrefetch" or node.kind.startswith("Unknown:")


def _follows_workers(graph: Graph, node: Node) -> bool:
    return any(one.kind == "ProcessPrefetch" for one in graph.below(node))


def threads_in_training_process(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Threads read single elements in the process that trains.

    A warning: a source that waits (remote storage) needs them. Threads that read whole batches
    cost nothing that could be measured, and read ahead.
    """
    graph = pipeline.graph
    if readers := element_readers(graph):
        yield LintFinding(
            "threads-in-training-process",
            "warning",
            tuple(node.id for node in readers),
            f"{reading_calls(readers)} single elements with"
            f" {readers[0].parameters['num_threads']} threads in the process that trains: they"
            " contend with it for the interpreter lock, and pay only where reading waits (remote"
            " storage) or its work releases the lock",
            f"{read_without_threads(graph, readers[0])}{_still_ahead(graph)}",
        )


def _still_ahead(graph: Graph) -> str:
    """Say what reads ahead instead of the threads, unless something behind them does already."""
    if graph.data_loader:
        return "; if the step then waits for batches, add worker_count=1"
    if any(_reads_ahead(node) for node in graph.nodes if not reads_with_threads(node)):
        return ""
    return f", and end with {THREAD_PREFETCH} to make batches ahead"


def _late(severity: Severity, graph: Graph, node: Node, told: str) -> LintFinding:
    return LintFinding(
        "no-prefetch",
        severity,
        (node.id,),
        f"{told} when the trainer asks for it, while the device waits",
        f"End with {THREAD_PREFETCH}{_or_workers(graph)}; only a device_put comes after it",
    )


def _or_workers(graph: Graph) -> str:
    """Propose workers as well, if they can share the sources: a stream cannot be sliced."""
    if graph.of_kind("Elastic"):
        call = "ElasticIterator(multiprocessing_options=grain.MultiprocessingOptions(2))"
        return f", or let it have workers: {call}"
    if not all(node.parents or node.random_access for node in graph.nodes):
        return ""
    return (
        ", or with .mp_prefetch(grain.MultiprocessingOptions(num_workers=2)) for more work than"
        " one core can do"
    )


def oversized_read_buffer(pipeline: Pipeline) -> Iterator[LintFinding]:
    """What reads ahead counts batches for elements.

    A warning; a remark where a MapDataset is iterated as it is, with Grain's default buffer.
    """
    graph = pipeline.graph
    for node in graph.of_kind("ToIter"):
        if (batch := find_batch(graph, node)) and _reading_buffer(node) > MANY_BATCHES:
            yield _oversized(
                "warning", graph, (node, batch), _reading_buffer(node), "to_iter_dataset"
            )
    root = graph.nodes[0]
    if root.random_access and (batch := find_batch(graph, root)):
        told = "iterating a MapDataset"
        yield _oversized("info", graph, (root, batch), _GRAINS_BUFFER, told)


def _oversized(
    severity: Severity, graph: Graph, nodes: tuple[Node, Node], buffer: int, told: str
) -> LintFinding:
    node, batch = nodes
    size = batch.parameters.get("batch_size")
    each = " in every worker" if node.in_worker else ""
    fix = (
        "Keep a few batches ready:"
        " .to_iter_dataset(grain.ReadOptions(num_threads=4, prefetch_buffer_size=4))"
    )
    return LintFinding(
        "oversized-read-buffer",
        severity,
        tuple(dict.fromkeys((node.id, batch.id))),
        f"{told} reads {buffer:,} elements ahead{each}, each of which is a batch of {size}: all of"
        " them are kept in memory",
        read_without_threads(graph, node) if node.in_worker else fix,
    )


def _reading_buffer(node: Node) -> int:
    """Return how many elements threads read ahead; without threads the buffer is not used."""
    size = node.parameters.get("prefetch_buffer_size")
    return size if isinstance(size, int) and node.parameters.get("num_threads") else 0
