"""Who shares the work: the workers of an `mp_prefetch`, and what runs in them."""

from collections.abc import Iterable
from dataclasses import dataclass

from netpipe.linting.graph.nodes import Graph, Node
from netpipe.linting.rules.node_kinds import puts_together

_PROCESSES = "ProcessPrefetch"
_THREADS = "MultithreadPrefetch"


@dataclass(frozen=True)
class Pool:
    """Workers among which a pipeline is divided: each reads every n-th element.

    Attributes:
        prefetch: The node that starts them.
        nodes: What runs in them, the nearest to the trainer first; of another pool in them only
            the node that starts it.
    """

    prefetch: Node
    nodes: tuple[Node, ...]

    @property
    def size(self) -> int:
        """How many workers there are."""
        name = "num_workers" if self.by_processes else "num_threads"
        number = self.prefetch.parameters.get(name)
        return number if isinstance(number, int) else 1

    @property
    def by_processes(self) -> bool:
        """Whether the workers are processes, to which what runs there is sent."""
        return self.prefetch.kind == _PROCESSES

    @property
    def is_sequential(self) -> bool:
        """Whether each worker reads one contiguous stretch of the source."""
        return self.prefetch.parameters.get("sequential_slice") is True

    @property
    def each(self) -> str:
        """What messages call every single one of the workers."""
        return f"each of {self}" if self.size > 1 else str(self)

    def ids_with(self, nodes: Iterable[Node]) -> tuple[int, ...]:
        """Return the id of the node that starts them and, once each, those of others."""
        return tuple(dict.fromkeys((self.prefetch.id, *(node.id for node in nodes))))

    def __str__(self) -> str:
        """Return what messages call the workers."""
        call = "mp_prefetch" if self.by_processes else "multithread_prefetch"
        return f"the {self.size} workers of {call}" if self.size > 1 else f"the worker of {call}"


def process_pools(graph: Graph) -> tuple[Pool, ...]:
    """Return all pools of worker processes, the nearest to the trainer first."""
    return tuple(pool for pool in worker_pools(graph) if pool.by_processes)


def worker_pools(graph: Graph) -> tuple[Pool, ...]:
    """Return the same with the threads that share a pipeline as such workers do."""
    return tuple(
        Pool(prefetch, tuple(graph.below(prefetch, _is_pool)))
        for prefetch in graph.of_kind(_PROCESSES, _THREADS)
    )


def choose_call(graph: Graph, for_loader: str, for_dataset: str) -> str:
    """Return how a fix is written: as an argument of the DataLoader if there is one."""
    return for_dataset if graph.data_loader is None else for_loader


def join_names(nodes: Iterable[Node]) -> str:
    """Return what messages call some nodes together: branches that are alike are named once."""
    return ", ".join(dict.fromkeys(map(str, nodes)))


def _is_pool(node: Node) -> bool:
    return node.kind in (_PROCESSES, _THREADS)


def find_batch(graph: Graph, node: Node) -> Node | None:
    """Return the batch that an element of a node is, if nothing has taken it apart."""
    found = (node, *graph.below(node, lambda one: one.kind == "FlatMap"))
    return next(filter(puts_together, found), None)
