"""Parts of a graph that rules look for: batches, user code, and the workers that share it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from netpipe.grain_access.nodes import Graph, Node

BATCHES: Final = ("Batch", "Rebatch")
# Kinds whose result depends on earlier elements.
DEPENDS_ON_ORDER: Final = (
    "MapWithIndex", "Filter", "FlatMap", "Pack", "ConcatThenSplit", "Operation",
)  # fmt: skip
# Kinds of MapDataset that leave some positions empty.
SPARSE: Final = ("Filter", "FlatMap")
USER_CODE: Final = ("Map", "RandomMap", *DEPENDS_ON_ORDER)

_PROCESSES: Final = "ProcessPrefetch"
_POOLS: Final = (_PROCESSES, "MultithreadPrefetch")


def is_work(node: Node) -> bool:
    """Whether workers could run a node; code that calls jax belongs in the training process."""
    on_device = node.uses_jax or node.parameters.get("device_put")
    return node.kind in (*BATCHES, *USER_CODE) and not on_device


def changes_elements(node: Node) -> bool:
    """Whether a node combines or splits elements; an unknown class is assumed to."""
    kinds = (*BATCHES, "FlatMap", "Pack", "ConcatThenSplit", "Operation")
    return node.kind in kinds or node.kind.startswith("Unknown:")


def is_batch(node: Node) -> bool:
    """Whether a node makes batches of several elements; at size 1, only a user's `batch_fn` can."""
    is_single = node.parameters.get("batch_size") == 1
    return node.kind in BATCHES and (not is_single or _has_own_function(node))


def find_batch(graph: Graph, node: Node) -> Node | None:
    """Return the node that made the batches that `node` yields; None if it yields elements."""
    nodes = (node, *graph.below(node, lambda below: below.kind == "FlatMap"))
    return next(filter(is_batch, nodes), None)


def write_batch_call(node: Node) -> str:
    """Return the `.batch(...)` call of a node with the user's arguments."""
    arguments = [f"batch_size={node.parameters.get('batch_size')}"]
    if node.parameters.get("drop_remainder") is True:
        arguments.append("drop_remainder=True")
    if _has_own_function(node):
        arguments.append("batch_fn=...")
    return f".batch({', '.join(arguments)})"


def _has_own_function(batch: Node) -> bool:
    return not str(batch.parameters.get("batch_fn") or "grain.").startswith("grain.")


@dataclass(frozen=True)
class Pool:
    """Workers that share a pipeline: each reads every n-th element, or its own slice.

    `nodes` ends at the node that starts a nested pool; `call` is the user's call that starts this
    pool.
    """

    prefetch: Node
    nodes: tuple[Node, ...]
    call: str

    @property
    def size(self) -> int:
        """The number of workers."""
        return self.prefetch.integer("num_workers" if self.uses_processes else "num_threads") or 1

    @property
    def uses_processes(self) -> bool:
        """Whether the workers are processes, which receive their nodes pickled."""
        return self.prefetch.kind == _PROCESSES

    @property
    def is_sequential(self) -> bool:
        """Whether each worker reads one contiguous slice of the source."""
        return self.prefetch.parameters.get("sequential_slice") is True

    @property
    def each(self) -> str:
        """The words for each single worker in messages."""
        return f"each of {self}" if self.size > 1 else str(self)

    def __str__(self) -> str:
        """Return the words for the workers in messages."""
        workers = f"the {self.size} workers" if self.size > 1 else "the worker"
        return f"{workers} of {self.call}"


def worker_pools(graph: Graph) -> tuple[Pool, ...]:
    """Return all pools, of processes or of threads, the nearest to the trainer first."""
    calls = {_PROCESSES: choose_call(graph, "DataLoader", "mp_prefetch")}
    return tuple(
        Pool(
            prefetch,
            tuple(graph.below(prefetch, lambda node: node.kind in _POOLS)),
            calls.get(prefetch.kind, "multithread_prefetch"),
        )
        for prefetch in graph.of_kind(*_POOLS)
    )


def process_pools(graph: Graph) -> tuple[Pool, ...]:
    """Return all pools of worker processes, the nearest to the trainer first."""
    return tuple(pool for pool in worker_pools(graph) if pool.uses_processes)


def started_pools(graph: Graph) -> tuple[Pool, ...]:
    """Return the pools of processes that the training process starts itself."""
    return tuple(pool for pool in process_pools(graph) if not pool.prefetch.in_worker)


def find_in_workers(
    graph: Graph, is_offending: Callable[[Node], object]
) -> Iterator[tuple[Pool, list[Node]]]:
    """Yield each pool of worker processes that runs offending nodes, with these nodes."""
    for pool in process_pools(graph):
        if nodes := list(filter(is_offending, pool.nodes)):
            yield pool, nodes


def choose_call(graph: Graph, for_loader: str, for_dataset: str) -> str:
    """Return the text of a fix: `for_loader` if there is a DataLoader, else `for_dataset`."""
    return for_dataset if graph.data_loader is None else for_loader


def write_workers(graph: Graph, count: object) -> str:
    """Return the call that gives a pipeline `count` workers."""
    options = f"grain.MultiprocessingOptions(num_workers={count})"
    if graph.of_kind("Elastic"):
        return f"ElasticIterator(multiprocessing_options={options})"
    return choose_call(graph, f"DataLoader(worker_count={count})", f".mp_prefetch({options})")


def propose_reading(
    graph: Graph, node: Node, how: str = "without", settings: str = "num_threads=0"
) -> str:
    """Return a fix that reads with or without threads, in the call that made `node`."""
    options = f"grain.ReadOptions({settings})"
    call = choose_call(graph, f"DataLoader(read_options={options})", f".to_iter_dataset({options})")
    if node.kind == "Elastic":
        call = f"ElasticIterator(read_options={options})"
    return f"Read {how} threads: {call}"
