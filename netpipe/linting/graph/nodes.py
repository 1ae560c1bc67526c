"""A pipeline as plain data: nodes, and the graph that they make. Knows nothing of Grain."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from math import isfinite
from numbers import Integral, Real
from types import MethodType
from typing import Final

# More elements than a trainer reads in eight years at a million a second: as good as endless.
ENDLESS: Final = 2**48

PlainValue = None | bool | int | float | str | tuple["PlainValue", ...]


@dataclass(frozen=True)
class Node:
    """One transformation of a pipeline.

    Attributes:
        id: Its number in `Graph.nodes`; 0 gives the elements that the trainer sees.
        kind: What it does, as its Grain method is called: "Batch", "Map", "Shuffle", "Mix";
            "ToIter" for `to_iter_dataset`, "ProcessPrefetch" for `mp_prefetch`, "NoWorkers" for
            an `mp_prefetch` without workers, "Source" for what it all starts from;
            "Unknown:<class>" for a class this version does not know.
        parameters: Its settings by their names in Grain; a function or an object is its name.
        parents: Ids of the nodes that it takes its elements from.
        in_worker: Whether it runs in a worker process, not in the one that trains.
        random_access: Whether it is a MapDataset, whose elements have places: what it does to an
            element then depends on the place alone, not on the number of workers.
        uses_jax: Whether the user's function in it calls jax; handling trees alone is not that.
        made_at: Where the user's code made it, as file:line; "" where that is not known.
        sent_bytes: Bytes that each worker is sent of what the node itself holds, of `mp_prefetch`
            its `worker_init_fn`; None for all else in the training process, and where it cannot
            be sent. An object that several nodes of the same workers hold is sent once, and
            counted with the first of them in `Graph.nodes`.
        unpicklable: Why it cannot be sent to a worker; "" where it can.
    """

    id: int
    kind: str
    parameters: Mapping[str, PlainValue]
    parents: tuple[int, ...]
    in_worker: bool
    random_access: bool = False
    uses_jax: bool = False
    made_at: str = ""
    sent_bytes: int | None = None
    unpicklable: str = ""

    def __str__(self) -> str:
        """Return what messages call it."""
        transform = self.parameters.get("transform")
        return f"{self.kind} of {transform}" if transform else self.kind


@dataclass(frozen=True)
class Graph:
    """A pipeline, from what the trainer sees down to its sources; empty if it is not Grain's."""

    nodes: tuple[Node, ...] = ()

    def of_kind(self, *kinds: str) -> tuple[Node, ...]:
        """Return the nodes of some kinds, those nearest to the trainer first."""
        return tuple(node for node in self.nodes if node.kind in kinds)

    @property
    def data_loader(self) -> Node | None:
        """The node of a DataLoader, whose settings are arguments and not calls; None without."""
        return next(iter(self.of_kind("DataLoader")), None)

    def below(self, node: Node, until: Callable[[Node], bool] = lambda _: False) -> Iterator[Node]:
        """Yield each node that elements pass through before `node` once, the nearest first.

        Args:
            node: The node to start below.
            until: Where to stop: the nodes for which it is true are yielded, but not what is only
                below them.
        """
        waiting, seen = deque(node.parents), set[int]()
        while waiting:
            number = waiting.popleft()
            if number not in seen:
                seen.add(number)
                yield self.nodes[number]
                if not until(self.nodes[number]):
                    waiting.extend(self.nodes[number].parents)

    def above(self, node: Node) -> Iterator[Node]:
        """Yield the nodes that elements pass through after `node`, nearest to the trainer first."""
        return (other for other in self.nodes if node in self.below(other))


def to_plain_value(value: object) -> PlainValue:
    """Return a setting as plain data: a mapping by its items, an object and inf by their names."""
    if isinstance(value, Enum):
        return value.name
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        number = float(value)
        return number if isfinite(number) else str(number)  # JSON has neither inf nor nan
    if isinstance(value, list | tuple):
        return tuple(to_plain_value(one) for one in value)
    if isinstance(value, dict):
        return tuple((str(key), to_plain_value(one)) for key, one in value.items())
    return qualified_name(value)


def qualified_name(value: object) -> str:
    """Name a function by where it is defined, a method or an object by its class."""
    if type(value) is partial:
        return qualified_name(value.func)
    owner = value.__self__ if type(value) is MethodType else value
    try:
        return f"{owner.__module__}.{owner.__qualname__}"  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001  # an object has no such name, or is odd when it is asked
        return f"{module_name(type(owner))}.{type.__dict__['__qualname__'].__get__(type(owner))}"


def module_name(kind: type) -> str:
    """Return the module of a class; "" if the class or its metaclass hides it by a property."""
    module = type.__dict__["__module__"].__get__(kind)
    return module if type(module) is str else ""
