"""How the workers are set up."""

from collections.abc import Iterator, Sequence
from typing import Final

from netpipe.linting.graph.nodes import Graph, Node
from netpipe.linting.rules.finding import LintFinding, Pipeline, Severity
from netpipe.linting.rules.worker_pools import (
    choose_call,
    find_batch,
    join_names,
    process_pools,
)

_WORKERS: Final = ".mp_prefetch(grain.MultiprocessingOptions(num_workers={}))"
_ELASTIC_WORKERS: Final = (
    "ElasticIterator(multiprocessing_options=grain.MultiprocessingOptions(num_workers={}))"
)


def threads_in_workers(pipeline: Pipeline) -> Iterator[LintFinding]:
    """Every worker reads with threads of its own. A warning: remote storage may want them."""
    for pool in process_pools(pipeline.graph):
        readers = [node for node in pool.nodes if reads_with_threads(node)]
        if readers:
            yield LintFinding(
                "threads-in-workers",
                "warning",
                (pool.prefetch.id, *(node.id for node in readers)),
                f"{reading_calls(readers)} with {readers[0].parameters['num_threads']} threads in"
                f" {pool.each}: they"
                " contend for the worker's interpreter lock, and pay only where reading waits"
                " (remote storage)",
                read_without_threads(pipeline.graph, readers[0]),
            )


def reads_with_threads(node: Node) -> bool:
    """Whether threads of its own read the elements of a node."""
    threads, buffer = map(node.parameters.get, ("num_threads", "prefetch_buffer_size"))
    return node.kind in ("ToIter", "Elastic") and bool(threads) and buffer != 0


def element_readers(graph: Graph) -> list[Node]:
    """Return the nodes whose threads read single elements in the process that trains."""
    return [
        node
        for node in graph.of_kind("ToIter")  # an ElasticIterator's threads read batches
        if reads_with_threads(node) and not node.in_worker and not find_batch(graph, node)
    ]


def reading_calls(readers: Sequence[Node]) -> str:
    """Return the subject and the verb of a sentence about nodes that read."""
    call = "ElasticIterator" if readers[0].kind == "Elastic" else "to_iter_dataset"
    return f"{call} reads" if len(readers) == 1 else f"{len(readers)} {call} each read"


def read_without_threads(graph: Graph, node: Node) -> str:
    """Say how a node reads as it should, unless its source waits."""
    options = "grain.ReadOptions(num_threads=0)"
    call = choose_call(graph, f"DataLoader(read_options={options})", f".to_iter_dataset({options})")
    if node.kind == "Elastic":
        call = f"ElasticIterator(read_options={options})"
    return f"Read without threads: {call}"


def no_workers(pipeline: Pipeline) -> Iterator[LintFinding]:
    """`mp_prefetch` without workers: a warning where it leaves nothing that reads ahead.

    A remark where something else does, and an error for a negative number, which fails. A
    DataLoader without workers is a remark: 0 is its default, and right for a light pipeline.
    """
    graph = pipeline.graph
    for node in graph.of_kind("NoWorkers"):
        is_elastic = graph.nodes[node.parents[0]].kind == "Elastic"
        if any(one.kind == "ProcessPrefetch" for one in graph.below(node)):
            yield _needless(node)
        elif is_elastic:
            yield _none("warning", node, "ElasticIterator", _ELASTIC_WORKERS.format(1))
        else:
            ahead = any(one.kind == "ThreadPrefetch" for one in graph.above(node))
            fix = _threads_first(graph, _WORKERS.format(1))
            yield _none("info" if ahead else "warning", node, "mp_prefetch", fix)
    for node in graph.of_kind("Interleave"):
        count = node.parameters.get("cycle_length")
        if not node.parents and isinstance(count, int) and count < 0:
            yield _negative(node, count)
    loader = pipeline.graph.data_loader
    if loader is not None and not process_pools(pipeline.graph):
        yield LintFinding(
            "no-workers",
            "info",
            (loader.id,),
            "DataLoader has no workers: its operations run in the process that trains, when the"
            " trainer asks for a batch",
            _threads_first(graph, "DataLoader(worker_count=1) or more"),
        )


def _threads_first(graph: Graph, workers: str) -> str:
    """Propose workers after reading without threads: in workers threads would cost as much."""
    readers = element_readers(graph)
    if not readers:
        return workers
    return (
        f"{read_without_threads(graph, readers[0])}, unless reading waits (remote storage). If one"
        f" core is not enough then: {workers}"
    )


def _none(severity: Severity, node: Node, call: str, fix: str) -> LintFinding:
    return LintFinding(
        "no-workers",
        severity,
        (node.id,),
        f"{call} with num_workers=0 does nothing: all that comes before it runs in the process"
        " that trains",
        f"{fix} or more (0 may come from grain.experimental.pick_performance_config), or a"
        " grain.experimental.ThreadPrefetchIterDataset instead of it",
    )


def _needless(node: Node) -> LintFinding:
    return LintFinding(
        "no-workers",
        "info",
        (node.id,),
        "mp_prefetch with num_workers=0 does nothing: workers come before it already, and it"
        " cannot have any of its own behind them",
        "Remove this .mp_prefetch(...)",
    )


def _negative(node: Node, count: int) -> LintFinding:
    return LintFinding(
        "no-workers",
        "error",
        (node.id,),
        f"mp_prefetch with num_workers={count} is no number of workers: it fails when the first"
        " batch is asked for, and what comes before it is lost",
        _WORKERS.format(1),
    )


def too_many_workers(pipeline: Pipeline) -> Iterator[LintFinding]:
    """There are more workers than cores. A warning: workers that wait for storage need none."""
    started = [pool for pool in process_pools(pipeline.graph) if not pool.prefetch.in_worker]
    count = sum(pool.size for pool in started)
    if count > pipeline.cores:
        call, argument = _asks_for_workers(pipeline.graph, started[0].prefetch)
        in_all = "" if len(started) == 1 else f", for all {len(started)} {call} together"
        yield LintFinding(
            "too-many-workers",
            "warning",
            tuple(pool.prefetch.id for pool in started),
            f"{call} starts {count} workers where this process may use {pipeline.cores}"
            " cores: they take turns with each other and with the process that trains, and each"
            " takes its time to start and memory of its own",
            f"At most as many as there are cores{in_all}: {argument.format(pipeline.cores)}",
        )


def _asks_for_workers(graph: Graph, prefetch: Node) -> tuple[str, str]:
    """Return what starts workers, and the argument that says how many."""
    if any(graph.nodes[one].kind == "Elastic" for one in prefetch.parents):
        return "ElasticIterator", _ELASTIC_WORKERS
    name = choose_call(graph, "DataLoader", "mp_prefetch")
    return name, choose_call(graph, "DataLoader(worker_count={})", _WORKERS)


def jax_in_worker(pipeline: Pipeline) -> Iterator[LintFinding]:
    """A function in the workers calls jax. A warning: a light call on a CPU may be meant."""
    for pool in process_pools(pipeline.graph):
        nodes = [node for node in pool.nodes if _calls_jax(node)]
        if nodes:
            yield LintFinding(
                "jax-in-worker",
                "warning",
                pool.ids_with(nodes),
                f"{join_names(nodes)}: jax is called in {pool}; each starts a jax of its own,"
                " compiles for itself, and on an accelerator takes memory that the training needs",
                "Use numpy there, or call jax after the workers or in the step",
            )


def _calls_jax(node: Node) -> bool:
    """Whether it does, and nothing graver is said of it."""
    return node.uses_jax and not (node.parameters.get("device_put") or node.unpicklable)
