"""The pools of workers that share a pipeline, and helpers for messages about them."""

from collections.abc import Iterable
from dataclasses import dataclass

from netpipe.linting.graph.nodes import Graph, Node
from netpipe.linting.rules.node_kinds import is_batch

_PROCESSES = "ProcessPrefetch"
_KINDS = (_PROCESSES, "MultithreadPrefetch")


@dataclass(frozen=True)
class Pool:
    """Workers that share a pipeline: each reads every n-th element.

    Attributes:
        prefetch: The node that starts the workers.
        nodes: The nodes that run in them, the nearest to the trainer first. Of a pool nested in
            them, only the node that starts it.
    """

    prefetch: Node
    nodes: tuple[Node, ...]

    @property
    def size(self) -> int:
        """The number of workers."""
        name = "num_workers" if self.uses_processes else "num_threads"
        number = self.prefetch.integer(name)
        return 1 if number is None else number

    @property
    def uses_processes(self) -> bool:
        """Whether the workers are processes, which are sent their nodes by pickle."""
        return self.prefetch.kind == _PROCESSES

    @property
    def is_sequential(self) -> bool:
        """Whether each worker reads one contiguous slice of the source."""
        return self.prefetch.parameters.get("sequential_slice") is True

    @property
    def each(self) -> str:
        """How messages refer to every single worker."""
        return f"each of {self}" if self.size > 1 else str(self)

    def ids_with(self, nodes: Iterable[Node]) -> tuple[int, ...]:
        """Return the ids of `prefetch` and of `nodes`, each once."""
        return tuple(dict.fromkeys((self.prefetch.id, *(node.id for node in nodes))))

    def __str__(self) -> str:
        """Return how messages refer to the workers."""
        call = "mp_prefetch" if self.uses_processes else "multithread_prefetch"
        return f"the {self.size} workers of {call}" if self.size > 1 else f"the worker of {call}"


def process_pools(graph: Graph) -> tuple[Pool, ...]:
    """Return all pools of worker processes, the nearest to the trainer first."""
    return tuple(pool for pool in worker_pools(graph) if pool.uses_processes)


def worker_pools(graph: Graph) -> tuple[Pool, ...]:
    """Return all pools, of processes or of threads, the nearest to the trainer first."""
    return tuple(
        Pool(prefetch, tuple(graph.below(prefetch, lambda node: node.kind in _KINDS)))
        for prefetch in graph.of_kind(*_KINDS)
    )


def choose_call(graph: Graph, for_loader: str, for_dataset: str) -> str:
    """Return how a fix is written: as an argument of the DataLoader, if there is one."""
    return for_dataset if graph.data_loader is None else for_loader


def read_without_threads(graph: Graph, node: Node) -> str:
    """Propose to read without threads, in the call that a node stands for."""
    options = "grain.ReadOptions(num_threads=0)"
    call = choose_call(graph, f"DataLoader(read_options={options})", f".to_iter_dataset({options})")
    if node.kind == "Elastic":
        call = f"ElasticIterator(read_options={options})"
    return f"Read without threads: {call}"


def join_names(nodes: Iterable[Node]) -> str:
    """Join the names of nodes for a message; equal names of parallel branches appear once."""
    return ", ".join(dict.fromkeys(map(str, nodes)))


def find_batch(graph: Graph, node: Node) -> Node | None:
    """Return the node that made the batches that `node` yields; None if it yields elements."""
    nodes = (node, *graph.below(node, lambda below: below.kind == "FlatMap"))
    return next(filter(is_batch, nodes), None)
