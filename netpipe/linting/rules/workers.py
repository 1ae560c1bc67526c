"""Rules about the number of workers, the objects sent to them, and their use of jax."""

from collections.abc import Iterator
from typing import Final

from netpipe.grain_access.nodes import Node
from netpipe.linting.rules.buffers import find_element_readers
from netpipe.linting.rules.finding import Pipeline, Problem
from netpipe.linting.rules.graph_parts import (
    find_in_workers,
    process_pools,
    propose_reading,
    started_pools,
    write_workers,
)
from netpipe.results.units import format_bytes

# A worker takes 74 MB, plus about two bytes for each byte sent to it (Grain 0.2.18). Above this
# size, the objects sent take about as much memory as the worker itself.
LARGE_CAPTURE_BYTES: Final = 32 * 2**20
_OPEN_SOURCE: Final = (
    "Let the source keep a path and open it in the worker when the first element is read,"
    " as grain.sources.ArrayRecordDataSource does"
)
_LOAD_IN_WORKER: Final = (
    "Keep a path in the transform, and load it in the worker when the first element comes:"
    ' np.load(path, mmap_mode="r") is shared by all workers'
)


def no_workers(pipeline: Pipeline) -> Iterator[Problem]:
    """Report an `mp_prefetch` or a DataLoader without workers.

    A DataLoader is only info: 0 workers is the default, and right for a light pipeline.
    """
    graph, fix = pipeline.graph, _propose_workers(pipeline)
    for node in graph.of_kind("NoWorkers"):
        # After workers, an mp_prefetch could not start any of its own.
        if any(below.kind == "ProcessPrefetch" for below in graph.below(node)):
            continue
        is_elastic = graph.nodes[node.parents[0]].kind == "Elastic"
        reads_ahead = any(above.kind == "ThreadPrefetch" for above in graph.above(node))
        call = "ElasticIterator" if is_elastic else "mp_prefetch"
        yield Problem(
            "info" if reads_ahead and not is_elastic else "warning",
            [node],
            f"{call} with num_workers=0 does nothing: everything before it runs in the process"
            " that trains",
            f"{fix} (0 may come from grain.experimental.pick_performance_config),"
            " or a grain.experimental.ThreadPrefetchIterDataset instead of it",
        )
    if graph.data_loader is not None and not process_pools(graph):
        message = (
            "DataLoader has no workers: its operations run in the process that trains, when the"
            " trainer asks for a batch"
        )
        yield Problem("info", [graph.data_loader], message, fix)


def _propose_workers(pipeline: Pipeline) -> str:
    """Return a fix: first read without threads, which would slow workers down just as much."""
    workers = f"{write_workers(pipeline.graph, 1)} or more"
    readers = find_element_readers(pipeline.graph)
    if not readers or pipeline.reads.wait:
        return workers
    unless = "" if pipeline.reads.evidence else ", unless reading waits (remote storage)"
    without = propose_reading(pipeline.graph, readers[0])
    return f"{without}{unless}. If one core is not enough then: {workers}"


def too_many_workers(pipeline: Pipeline) -> Iterator[Problem]:
    """Warn about more workers than cores; workers that wait for storage need no core."""
    graph, cores = pipeline.graph, pipeline.cores
    started = started_pools(graph)
    count = sum(pool.size for pool in started)
    if count > cores:
        setting = write_workers(graph, cores)
        call = setting.removeprefix(".").partition("(")[0]
        in_total = "" if len(started) == 1 else f", for all {len(started)} {call} together"
        yield Problem(
            "warning",
            [pool.prefetch for pool in started],
            f"{call} starts {count} workers, but this process may use only {cores} cores: the"
            " workers compete with each other and with the process that trains, and each needs"
            " time to start and memory of its own",
            f"Start at most as many as there are cores{in_total}: {setting}",
        )


def jax_in_worker(pipeline: Pipeline) -> Iterator[Problem]:
    """Warn about functions that call jax in workers; a light call may be intended."""

    def is_offending(node: Node) -> bool:
        # Other rules report unpicklable objects and device_put.
        return node.uses_jax and not (node.parameters.get("device_put") or node.unpicklable)

    for pool, nodes in find_in_workers(pipeline.graph, is_offending):
        yield Problem(
            "warning",
            (pool.prefetch, *nodes),
            f"{', '.join(dict.fromkeys(map(str, nodes)))}: jax is called in {pool}; each starts"
            " its own jax, compiles for itself, and on an accelerator takes memory that the"
            " training needs",
            "Use numpy there, or call jax after the workers or in the step",
        )


def cannot_be_pickled(pipeline: Pipeline) -> Iterator[Problem]:
    """Report objects that cannot be sent to the workers."""
    for pool in process_pools(pipeline.graph):
        sent = (pool.prefetch, *pool.nodes)
        nodes = [n for n in sent if n.unpicklable and not n.parameters.get("device_put")]
        if nodes:
            reasons = dict.fromkeys(f"{node}: {node.unpicklable}" for node in nodes)
            yield Problem(
                "error",
                (pool.prefetch, *nodes),
                f"objects that cannot be pickled cannot be sent to {pool}; {'; '.join(reasons)}",
                "Create locks, open files and connections in the worker: keep None, and create"
                " them when the first element comes",
            )


def unparsed_flags(pipeline: Pipeline) -> Iterator[Problem]:
    """Report workers that only netpipe's processes can start, which parse absl's flags."""
    if pipeline.lacks_flags and (pools := process_pools(pipeline.graph)):
        yield Problem(
            "info",
            [pool.prefetch for pool in pools],
            "Grain reads absl's flags to start workers: in a program that has not parsed them, the"
            " first batch fails with UnparsedFlagAccessError",
            "Call absl.app.run, or first: from absl import flags; flags.FLAGS.mark_as_parsed()",
        )


def large_capture(pipeline: Pipeline) -> Iterator[Problem]:
    """Report large objects that are copied to every worker."""
    for pool in process_pools(pipeline.graph):
        nodes = (pool.prefetch, *pool.nodes)
        total = sum(node.sent_bytes or 0 for node in nodes)
        largest = max(nodes, key=lambda node: node.sent_bytes or 0)
        if total >= LARGE_CAPTURE_BYTES:
            sizes = (total, total * pool.size, largest.sent_bytes or 0)
            sent, kept, held = map(format_bytes, sizes)
            yield Problem(
                "warning",
                (pool.prefetch, largest),
                f"At least {sent} must be pickled and sent to {pool.each} before the first batch,"
                f" and every worker keeps a copy: {kept} in total. {largest} holds {held} of it",
                _OPEN_SOURCE if largest.kind == "Source" else _LOAD_IN_WORKER,
            )
