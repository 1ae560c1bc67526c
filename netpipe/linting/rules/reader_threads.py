"""Rules about threads that read single elements, and helpers that find and describe them."""

from collections.abc import Iterator, Sequence

from netpipe.linting.graph.nodes import Graph, Node
from netpipe.linting.rules.buffers import THREAD_PREFETCH, reads_ahead
from netpipe.linting.rules.finding import LintFinding, Pipeline
from netpipe.linting.rules.worker_pools import find_batch, process_pools, read_without_threads


def threads_in_workers(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Report workers that read with threads. A warning: remote storage may need them."""
    for pool in process_pools(pipeline.graph):
        readers = [node for node in pool.nodes if reads_with_threads(node)]
        if readers:
            yield LintFinding(
                "threads-in-workers",
                "warning",
                (pool.prefetch.id, *(node.id for node in readers)),
                f"{_subject(readers)} with {readers[0].parameters['num_threads']} threads in"
                f" {pool.each}: they contend for the worker's interpreter lock, and help only"
                " where reading waits (remote storage)",
                read_without_threads(pipeline.graph, readers[0]),
            )


def threads_in_training_process(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Report threads that read single elements in the training process.

    A warning: remote storage may need them. Threads that read whole batches cost nothing that
    could be measured, and they read ahead.
    """
    graph = pipeline.graph
    if readers := find_element_readers(graph):
        yield LintFinding(
            "threads-in-training-process",
            "warning",
            tuple(node.id for node in readers),
            f"{_subject(readers)} single elements with {readers[0].parameters['num_threads']}"
            " threads in the process that trains: they contend with it for the interpreter lock,"
            " and help only where reading waits (remote storage) or releases the lock",
            f"{read_without_threads(graph, readers[0])}{_read_ahead_instead(graph)}",
        )


def _read_ahead_instead(graph: Graph) -> str:
    """Propose what reads ahead in place of the threads, unless another node already does."""
    if graph.data_loader:
        return "; if the step then waits for batches, add worker_count=1"
    if any(reads_ahead(node) for node in graph.nodes if not reads_with_threads(node)):
        return ""
    return f", and end with {THREAD_PREFETCH} to make batches ahead"


def _subject(readers: Sequence[Node]) -> str:
    call = "ElasticIterator" if readers[0].kind == "Elastic" else "to_iter_dataset"
    return f"{call} reads" if len(readers) == 1 else f"{len(readers)} {call} each read"


def reads_with_threads(node: Node) -> bool:
    """Whether a node reads its elements with threads of its own."""
    threads, buffer = map(node.parameters.get, ("num_threads", "prefetch_buffer_size"))
    return node.kind in ("ToIter", "Elastic") and bool(threads) and buffer != 0


def find_element_readers(graph: Graph) -> list[Node]:
    """Return the nodes whose threads read single elements in the training process."""
    return [
        node
        # The threads of an ElasticIterator read batches.
        for node in graph.of_kind("ToIter")
        if reads_with_threads(node) and not node.in_worker and not find_batch(graph, node)
    ]
