"""Rules about the number of workers, and about jax in them."""

from collections.abc import Iterator
from typing import Final

from netpipe.linting.graph.nodes import Graph, Node
from netpipe.linting.rules.finding import LintFinding, Pipeline, Severity
from netpipe.linting.rules.reader_threads import find_element_readers
from netpipe.linting.rules.worker_pools import (
    choose_call,
    join_names,
    process_pools,
    read_without_threads,
)

_WORKERS: Final = ".mp_prefetch(grain.MultiprocessingOptions(num_workers={}))"
_ELASTIC_WORKERS: Final = (
    "ElasticIterator(multiprocessing_options=grain.MultiprocessingOptions(num_workers={}))"
)


def no_workers(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Report an `mp_prefetch` without workers, and a DataLoader without.

    A warning, but info if something else reads ahead, and an error for a negative number, which
    fails. A DataLoader is info: 0 workers are its default, and right for a light pipeline.
    """
    graph = pipeline.graph
    for node in graph.of_kind("NoWorkers"):
        yield _report_no_workers(graph, node)
    for node in graph.of_kind("Interleave"):
        count = node.integer("cycle_length")
        if not node.parents and count is not None and count < 0:
            message = (
                f"mp_prefetch with num_workers={count} is not a number of workers: it fails when"
                " the first batch is asked for, and what comes before it is lost"
            )
            yield LintFinding("no-workers", "error", (node.id,), message, _WORKERS.format(1))
    if graph.data_loader is not None and not process_pools(graph):
        message = (
            "DataLoader has no workers: its operations run in the process that trains, when the"
            " trainer asks for a batch"
        )
        fix = _threads_first(graph, "DataLoader(worker_count=1) or more")
        yield LintFinding("no-workers", "info", (graph.data_loader.id,), message, fix)


def _report_no_workers(graph: Graph, node: Node) -> LintFinding:
    if any(below.kind == "ProcessPrefetch" for below in graph.below(node)):
        message = (
            "mp_prefetch with num_workers=0 does nothing: workers come before it already, and it"
            " cannot have any of its own after them"
        )
        fix = "Remove this .mp_prefetch(...)"
        return LintFinding("no-workers", "info", (node.id,), message, fix)
    is_elastic = graph.nodes[node.parents[0]].kind == "Elastic"
    reads_ahead = any(above.kind == "ThreadPrefetch" for above in graph.above(node))
    severity: Severity = "info" if reads_ahead and not is_elastic else "warning"
    call = "ElasticIterator" if is_elastic else "mp_prefetch"
    workers = _ELASTIC_WORKERS if is_elastic else _threads_first(graph, _WORKERS)
    return LintFinding(
        "no-workers",
        severity,
        (node.id,),
        f"{call} with num_workers=0 does nothing: all that comes before it runs in the process"
        " that trains",
        f"{workers.format(1)} or more (0 may come from grain.experimental.pick_performance_config),"
        " or a grain.experimental.ThreadPrefetchIterDataset instead of it",
    )


def _threads_first(graph: Graph, workers: str) -> str:
    """Propose reading without threads first: threads would slow workers down just as much."""
    readers = find_element_readers(graph)
    if not readers:
        return workers
    return (
        f"{read_without_threads(graph, readers[0])}, unless reading waits (remote storage). If one"
        f" core is not enough then: {workers}"
    )


def too_many_workers(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Report more workers than cores. A warning: workers that wait for storage need no core."""
    started = [pool for pool in process_pools(pipeline.graph) if not pool.prefetch.in_worker]
    count = sum(pool.size for pool in started)
    if count > pipeline.cores:
        call, argument = _worker_setting(pipeline.graph, started[0].prefetch)
        in_total = "" if len(started) == 1 else f", for all {len(started)} {call} together"
        yield LintFinding(
            "too-many-workers",
            "warning",
            tuple(pool.prefetch.id for pool in started),
            f"{call} starts {count} workers, but this process may use only {pipeline.cores}"
            " cores: the workers compete with each other and with the process that trains, and"
            " each needs time to start and memory of its own",
            f"At most as many as there are cores{in_total}: {argument.format(pipeline.cores)}",
        )


def _worker_setting(graph: Graph, prefetch: Node) -> tuple[str, str]:
    """Return the name of the call that starts workers, and the call with the number to fill in."""
    if any(graph.nodes[parent].kind == "Elastic" for parent in prefetch.parents):
        return "ElasticIterator", _ELASTIC_WORKERS
    name = choose_call(graph, "DataLoader", "mp_prefetch")
    return name, choose_call(graph, "DataLoader(worker_count={})", _WORKERS)


def jax_in_worker(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Report functions in the workers that call jax. A warning: a light call may be intended."""
    for pool in process_pools(pipeline.graph):
        nodes = [
            node
            for node in pool.nodes
            # Other rules report what cannot be pickled and what is put on a device.
            if node.uses_jax and not (node.parameters.get("device_put") or node.unpicklable)
        ]
        if nodes:
            yield LintFinding(
                "jax-in-worker",
                "warning",
                pool.ids_with(nodes),
                f"{join_names(nodes)}: jax is called in {pool}; each starts its own jax, compiles"
                " for itself, and on an accelerator takes memory that the training needs",
                "Use numpy there, or call jax after the workers or in the step",
            )
