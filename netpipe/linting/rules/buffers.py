"""Rules about elements that are made ahead, and about the threads that make them."""

from collections.abc import Iterator, Sequence
from math import prod
from typing import Final

from netpipe.grain_access.nodes import Graph, Node
from netpipe.linting.rules.finding import Pipeline, Problem, Severity
from netpipe.linting.rules.graph_parts import (
    BATCHES,
    USER_CODE,
    choose_call,
    find_batch,
    find_in_workers,
    is_work,
    propose_reading,
    worker_pools,
    write_workers,
)
from netpipe.results.units import format_bytes, format_count

THREAD_PREFETCH: Final = (
    "grain.experimental.ThreadPrefetchIterDataset(dataset, prefetch_buffer_size=2)"
)
FEW_READS: Final = "num_threads=4, prefetch_buffer_size=4"
# Grain's default number of threads; the buffer hides slow reads even where it holds batches.
MANY_READS: Final = "num_threads=16, prefetch_buffer_size=64"
_MIN_READS_IN_FLIGHT: Final = 8
_THREADS_HELP: Final = "help only where reading waits (remote storage)"
# 64 batches feed even a step of 20 ms for more than a second.
_MAX_BUFFERED_BATCHES: Final = 64
_LARGE_MEMORY_FRACTION: Final = 0.25
# Iterating a MapDataset uses to_iter_dataset() with its default buffer.
_DEFAULT_BUFFER_ELEMENTS: Final = 500
# An Interleave reads each of its datasets in a thread.
_BUFFER_SETTINGS: Final = {
    "ProcessPrefetch": "per_worker_buffer_size",
    "ThreadPrefetch": "prefetch_buffer_size",
    "Interleave": "iter_buffer_size",
    "MultithreadPrefetch": "buffer_size",
}


def no_prefetch(pipeline: Pipeline) -> Iterator[Problem]:
    """Report work that is done only when the trainer asks for a batch.

    Batching alone is only info. Other rules report missing or misplaced workers.
    """
    graph, root = pipeline.graph, pipeline.graph.nodes[0]
    # Iterating a MapDataset starts threads that read ahead.
    if graph.of_kind("NoWorkers", "DataLoader") or root.random_access or _reads_ahead(root):
        return
    # The trainer's own thread runs the nodes above those that read ahead.
    below = (node for node in graph.below(root, _reads_ahead) if not _reads_ahead(node))
    on_request = [root, *below]
    if not all(node.parents for node in on_request):
        problem = "nothing reads ahead: every batch is made"
        if any(map(_reads_ahead, graph.below(root))):
            problem = "not every branch reads ahead: the elements of the others are made"
        yield _report_late_work("warning", graph, root, problem)
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


def _reads_ahead(node: Node) -> bool:
    """Whether a node makes elements ahead; an unknown class is assumed to."""
    if node.kind in _BUFFER_SETTINGS:
        return node.parameters.get(_BUFFER_SETTINGS[node.kind]) != 0
    return _buffer_size(node) > 0 or node.kind.startswith("Unknown:")


def _report_late_work(severity: Severity, graph: Graph, node: Node, problem: str) -> Problem:
    message = f"{problem} when the trainer asks for it, while the device waits"
    workers = ""
    call = write_workers(graph, 2)
    if graph.of_kind("Elastic"):
        workers = f", or give it workers: {call}"
    # Workers divide the sources, and a stream cannot be sliced.
    elif all(node.parents or node.random_access for node in graph.nodes):
        workers = f", or with {call} for more work than one core can do"
    fix = f"End with {THREAD_PREFETCH}{workers}; only a device_put comes after it"
    return Problem(severity, [node], message, fix)


def oversized_read_buffer(pipeline: Pipeline) -> Iterator[Problem]:
    """Report read-ahead buffers of many batches, whose size was meant as a number of elements.

    A MapDataset that is iterated directly has Grain's default buffer, and is reported as info.
    """
    graph, reads_wait = pipeline.graph, pipeline.reads.wait
    for node in graph.nodes:
        size = _buffer_size(node)
        batch = find_batch(graph, node) if size > _MAX_BUFFERED_BATCHES else None
        if batch is None or node.kind == "Elastic":
            continue
        call = choose_call(graph, "DataLoader", "to_iter_dataset")
        subject = "iterating a MapDataset" if node.random_access else call
        few_batches = f"Keep a few batches ready: .to_iter_dataset(grain.ReadOptions({FEW_READS}))"
        yield Problem(
            "info" if node.random_access else "warning",
            (node, batch),
            f"{subject} reads {size:,} elements ahead{' in every worker' if node.in_worker else ''}"
            f", each of which is a batch of {batch.parameters.get('batch_size')}: all of them are"
            " kept in memory",
            few_batches if reads_wait or not node.in_worker else propose_reading(graph, node),
        )


def _buffer_size(node: Node) -> int:
    """Return the number of elements that a node's own threads read ahead."""
    if node.random_access:
        return _DEFAULT_BUFFER_ELEMENTS if node.id == 0 else 0
    size = node.integer("prefetch_buffer_size")
    return size if size and node.parameters.get("num_threads") else 0


def buffers_exceed_memory(pipeline: Pipeline) -> Iterator[Problem]:
    """Report buffers of many batches, or of much memory if a batch could be measured."""
    graph, memory_bytes = pipeline.graph, pipeline.memory_bytes
    held = {node.id: _count_held_batches(graph, node) for node in graph.nodes}
    node, total = max(graph.nodes, key=lambda node: held[node.id]), sum(held.values())
    if total <= _MAX_BUFFERED_BATCHES:
        return
    batch_bytes = pipeline.reads.measure_batch(graph) or 0
    fits, used = _LARGE_MEMORY_FRACTION * memory_bytes / (batch_bytes or 1), total * batch_bytes
    fix = _propose_less(graph, node, held[node.id], fits)
    # Another rule reports read buffers of many batches.
    is_batch = node.kind in _BUFFER_SETTINGS and find_batch(graph, node)
    if total <= fits and not (is_batch and fix and held[node.id] > _MAX_BUFFERED_BATCHES):
        return
    count, size = f"{held[node.id]:,.0f} batches", "the bytes of a batch are not known"
    if is_batch and node.kind == "ProcessPrefetch":
        workers, buffer = map(node.integer, ("num_workers", "per_worker_buffer_size"))
        count = f"{workers} workers x 2 x ({buffer} + 1) = {count}"
    if batch_bytes:
        sizes = map(format_bytes, (batch_bytes, used, memory_bytes))
        size = "with {} for each, all buffers can take {} of {} of memory".format(*sizes)
    yield Problem(
        "error" if used > memory_bytes else "warning" if total > fits else "info",
        [node],
        f"up to {count} are held ready; {size}",
        f"Lower {fix}" if fix else "Make smaller batches",
    )


def _count_held_batches(graph: Graph, node: Node) -> float:
    """Return the number of batches that a node can hold in all processes (Grain 0.2.18)."""
    held = _buffer_size(node)
    if buffer := node.integer(_BUFFER_SETTINGS.get(node.kind, "")):
        held = (node.integer("cycle_length") or node.integer("num_threads") or 1) * (buffer + 1)
        # The training process has another buffer for each worker.
        held *= 2 * (node.integer("num_workers") or 0) or 1
    if not held:
        return 0.0
    batches = (above.integer("batch_size") for above in graph.above(node) if above.kind in BATCHES)
    return held * _count_copies(graph, node) / prod(size or 1 for size in batches)


def _propose_less(graph: Graph, node: Node, held: float, fits: float) -> str:
    """Return the settings to lower so that the buffers of a node fit in memory; "" if none."""
    setting = _BUFFER_SETTINGS.get(node.kind, "prefetch_buffer_size")
    buffer, workers = node.integer(setting) or _DEFAULT_BUFFER_ELEMENTS, node.integer("num_workers")
    less = max(1, int((buffer + 1) * min(fits, _MAX_BUFFERED_BATCHES) / held) - 1)
    lower = [(setting, buffer, less)]
    if workers:
        names = choose_call(graph, "worker_buffer_size worker_count", f"{setting} num_workers")
        fewer = max(1, int(fits / 2 / (less + 1)))
        lower = list(zip(names.split(), (buffer, workers), (less, fewer), strict=True))
    return " and ".join(f"{name} from {now} to {then}" for name, now, then in lower if then < now)


def threads_in_workers(pipeline: Pipeline) -> Iterator[Problem]:
    """Warn about threads that read in workers; remote storage may need them."""
    for pool, readers in find_in_workers(pipeline.graph, _buffer_size):
        threads = format_count(readers[0].integer("num_threads"), "thread")
        yield Problem(
            "warning",
            (pool.prefetch, *readers),
            f"{_subject(pipeline.graph, readers)} with {threads} in"
            f" {pool.each}: they contend for the worker's interpreter lock, and"
            f" {pipeline.reads.evidence or _THREADS_HELP}",
            propose_reading(pipeline.graph, readers[0]),
        )


def threads_in_training_process(pipeline: Pipeline) -> Iterator[Problem]:
    """Warn about threads that read single elements in the training process.

    Remote storage may need such threads. Those that read whole batches are not reported, because
    they read ahead at no measurable cost.
    """
    graph = pipeline.graph
    if readers := find_element_readers(graph):
        fix = propose_reading(graph, readers[0])
        if graph.data_loader:
            fix += "; if the step then waits for batches, add worker_count=1"
        elif not any(_reads_ahead(node) for node in graph.nodes if _buffer_size(node) == 0):
            fix += f", and end with {THREAD_PREFETCH} to make batches ahead"
        threads = format_count(readers[0].integer("num_threads"), "thread")
        yield Problem(
            "warning",
            readers,
            f"{_subject(graph, readers)} single elements with {threads}"
            " in the process that trains: they contend with it for the interpreter lock,"
            f" and {pipeline.reads.evidence or f'{_THREADS_HELP} or releases the lock'}",
            fix,
        )


def too_few_reads_in_flight(pipeline: Pipeline) -> Iterator[Problem]:
    """Warn about too few reads in flight where reading waits; the server may not allow more."""
    graph, readers = pipeline.graph, pipeline.graph.of_kind("ToIter", "Elastic")
    count = sum(_count_reads(graph, reader) for reader in readers)
    if pipeline.reads.wait and 0 < count < _MIN_READS_IN_FLIGHT:
        yield Problem(
            "warning",
            readers,
            f"{_subject(graph, readers)} at most {count} at a time in all workers, and"
            f" {pipeline.reads.evidence}: more reads would wait at the same time",
            propose_reading(graph, readers[0], "with", MANY_READS),
        )


def _count_reads(graph: Graph, reader: Node) -> int:
    size = _buffer_size(reader)
    own = min(size, reader.integer("num_threads") or size) or 1
    return own * _count_copies(graph, reader)


def _count_copies(graph: Graph, node: Node) -> int:
    """Return the number of workers that have a copy of a node."""
    return prod(pool.size for pool in worker_pools(graph) if node in pool.nodes)


def _subject(graph: Graph, readers: Sequence[Node]) -> str:
    call = choose_call(graph, "DataLoader", "to_iter_dataset")
    call = "ElasticIterator" if readers[0].kind == "Elastic" else call
    return f"{call} reads" if len(readers) == 1 else f"{len(readers)} {call} each read"


def find_element_readers(graph: Graph) -> list[Node]:
    """Return the nodes whose threads read single elements in the training process."""
    return [
        node
        # The threads of an ElasticIterator read batches.
        for node in graph.of_kind("ToIter")
        if _buffer_size(node) > 0 and not node.in_worker and not find_batch(graph, node)
    ]
