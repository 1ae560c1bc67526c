"""How the workers are set up."""

from collections.abc import Iterator

from netpipe.harness.graph.nodes import Graph, Node
from netpipe.harness.rules.finding import Inspected, LintFinding
from netpipe.harness.rules.pools import above, data_loader, pools, setting


def threads_in_workers(pipeline: Inspected) -> Iterator[LintFinding]:
    """Every worker reads with threads of its own. A warning: remote storage may want them."""
    for pool in pools(pipeline.graph):
        readers = [node for node in pool.nodes if _reads_with_threads(node)]
        if readers:
            call = "ElasticIterator" if readers[0].kind == "Elastic" else "to_iter_dataset"
            reads = f"{call} reads" if len(readers) == 1 else f"{len(readers)} {call} each read"
            yield LintFinding(
                "threads-in-workers",
                "warning",
                (pool.prefetch.id, *(node.id for node in readers)),
                f"{reads} with {readers[0].parameters['num_threads']} threads in {pool.each}: they"
                " contend for the worker's interpreter lock, and pay only where reading waits"
                " (remote storage)",
                f"Read without threads: {_read_options(pipeline.graph, readers[0])}",
            )


def _reads_with_threads(node: Node) -> bool:
    threads, buffer = map(node.parameters.get, ("num_threads", "prefetch_buffer_size"))
    return node.kind in ("ToIter", "Elastic") and bool(threads) and buffer != 0


def _read_options(graph: Graph, node: Node) -> str:
    options = "grain.ReadOptions(num_threads=0)"
    if node.kind == "Elastic":
        return f"ElasticIterator(read_options={options})"
    return setting(graph, f"DataLoader(read_options={options})", f".to_iter_dataset({options})")


def no_workers(pipeline: Inspected) -> Iterator[LintFinding]:
    """`mp_prefetch` without workers: a warning where it leaves nothing that reads ahead.

    A DataLoader without workers is a remark: 0 is its default, and right for a light pipeline.
    """
    for node in pipeline.graph.of_kind("NoWorkers"):
        ahead = any(one.kind == "ThreadPrefetch" for one in above(pipeline.graph, node))
        yield LintFinding(
            "no-workers",
            "info" if ahead else "warning",
            (node.id,),
            "mp_prefetch with num_workers=0 does nothing: all that comes before it runs in the"
            " process that trains",
            ".mp_prefetch(grain.MultiprocessingOptions(num_workers=1)) or more (0 may come from"
            " grain.experimental.pick_performance_config), or a"
            " grain.experimental.ThreadPrefetchIterDataset instead of it",
        )
    loader = data_loader(pipeline.graph)
    if loader is not None and not pools(pipeline.graph):
        yield LintFinding(
            "no-workers",
            "info",
            (loader.id,),
            "DataLoader has no workers: its operations run in the process that trains, when the"
            " trainer asks for a batch",
            "DataLoader(worker_count=1) or more",
        )


def too_many_workers(pipeline: Inspected) -> Iterator[LintFinding]:
    """There are more workers than cores. A warning: workers that wait for storage need none."""
    started = [pool for pool in pools(pipeline.graph) if not pool.prefetch.in_worker]
    count = sum(pool.size for pool in started)
    if count > pipeline.cores:
        argument = setting(
            pipeline.graph,
            f"DataLoader(worker_count={pipeline.cores})",
            f".mp_prefetch(grain.MultiprocessingOptions(num_workers={pipeline.cores}))",
        )
        in_all = "" if len(started) == 1 else f", for all {len(started)} mp_prefetch together"
        yield LintFinding(
            "too-many-workers",
            "warning",
            tuple(pool.prefetch.id for pool in started),
            f"mp_prefetch starts {count} workers where this process may use {pipeline.cores}"
            " cores: they take turns with each other and with the process that trains, and each"
            " takes its time to start and memory of its own",
            f"At most as many as there are cores{in_all}: {argument}",
        )


def jax_in_worker(pipeline: Inspected) -> Iterator[LintFinding]:
    """A function in the workers calls jax. A warning: a light call on a CPU may be meant."""
    for pool in pools(pipeline.graph):
        for node in pool.nodes:
            if node.uses_jax and not (node.parameters.get("device_put") or node.unpicklable):
                yield LintFinding(
                    "jax-in-worker",
                    "warning",
                    (pool.prefetch.id, node.id),
                    f"{node} calls jax in {pool}: each starts a jax of its own, compiles for"
                    " itself, and on an accelerator takes memory that the training needs",
                    "Use numpy there, or call jax after the workers or in the step",
                )
