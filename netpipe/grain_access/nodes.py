"""A pipeline as plain data, independent of Grain: nodes, and the graph that they form."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from math import isfinite
from numbers import Integral, Real
from types import MethodType
from typing import Annotated, Final

from netpipe.results.fields import Count, Text

# A trainer that reads a million elements per second takes almost nine years to reach this number.
ENDLESS: Final = 2**48

PlainValue = None | bool | int | float | str | tuple["PlainValue", ...]


@dataclass(frozen=True)
class Node:
    """One transformation of a pipeline.

    Attributes:
        id: Its index in `Graph.nodes`; node 0 yields the elements that the trainer sees.
        kind: Its operation, named like its Grain method: "Batch", "Map", "Shuffle", "Mix";
            "ToIter" for `to_iter_dataset`, "ProcessPrefetch" for `mp_prefetch`, "NoWorkers" for
            an `mp_prefetch` without workers, "Source" for a data source, "Unknown:<class>" for a
            class that this version does not know.
        parameters: Its settings by their names in Grain; a function or an object by its name.
        parents: Ids of the nodes that provide its elements.
        in_worker: Whether it runs in a worker process rather than in the training process.
        random_access: Whether it is a MapDataset: its result depends only on the position of an
            element, not on the number of workers.
        uses_jax: Whether the user's function uses jax for more than trees and types.
        made_at: The line of the user's code that made it, or that defines an operation of a
            DataLoader, as file:line; "" if unknown.
        sent_bytes: Bytes of the node's own objects that are sent to each worker; for `mp_prefetch`,
            its `worker_init_fn`. None for other nodes in the training process, and for a node that
            cannot be pickled. An object shared by nodes of the same workers counts for the first.
            With more than 32 MiB of small objects, it is a lower bound.
        unpicklable: The reason why it cannot be sent to a worker; "" if it can.
    """

    id: Count
    kind: Text
    parameters: Annotated[Mapping[str, PlainValue], Mapping[str, object]]
    parents: tuple[Count, ...]
    in_worker: bool
    random_access: bool = False
    uses_jax: bool = False
    made_at: str = ""
    sent_bytes: Count | None = None
    unpicklable: str = ""

    def integer(self, name: str) -> int | None:
        """Return a parameter that is an integer; None for any other value."""
        value = self.parameters.get(name)
        return value if isinstance(value, int) else None

    def __str__(self) -> str:
        """Return the node's name in messages."""
        transform = self.parameters.get("transform")
        return f"{self.kind} of {transform}" if transform else self.kind


@dataclass(frozen=True)
class Graph:
    """A pipeline, from the trainer down to its sources; empty if the loader is not Grain's.

    `other_workers` is the number of worker processes of a loader that is not Grain's, if known.
    """

    nodes: tuple[Node, ...] = ()
    other_workers: int = 0

    def of_kind(self, *kinds: str) -> tuple[Node, ...]:
        """Return the nodes of the given kinds, nearest to the trainer first."""
        return tuple(node for node in self.nodes if node.kind in kinds)

    @property
    def data_loader(self) -> Node | None:
        """The node of a DataLoader, which takes its settings as arguments; None without one."""
        return next(iter(self.of_kind("DataLoader")), None)

    def below(self, node: Node, until: Callable[[Node], bool] = lambda _: False) -> Iterator[Node]:
        """Yield once each node that elements pass through before `node`, nearest first.

        Nodes for which `until` is true are yielded, but not the nodes that are only below them.
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
    """Convert a setting to plain data; an object or infinity is converted to its name."""
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
        return tuple(map(to_plain_value, value))
    if isinstance(value, dict):
        return tuple((str(key), to_plain_value(item)) for key, item in value.items())
    return qualified_name(value)


def qualified_name(value: object) -> str:
    """Return a function's module and name; for a method or an object, those of its class."""
    if type(value) is partial:
        return qualified_name(value.func)
    owner = value.__self__ if type(value) is MethodType else value
    try:
        return f"{owner.__module__}.{owner.__qualname__}"  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001  # an object has no such name, or may raise anything
        return f"{module_name(type(owner))}.{type.__dict__['__qualname__'].__get__(type(owner))}"


def module_name(kind: type) -> str:
    """Return the name of a class's module; "" if a property of the class hides it."""
    module = type.__dict__["__module__"].__get__(kind)
    return module if type(module) is str else ""
