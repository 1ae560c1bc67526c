"""A visible graph in reading order: calls from the source on, branches, and process boundaries."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from netpipe.linting.graph.nodes import Node
from netpipe.linting.picture.calls import Call, describe_call
from netpipe.linting.picture.visible_graph import VisibleGraph
from netpipe.linting.rules.finding import LintFinding


@dataclass(frozen=True)
class Entry:
    """A call.

    Attributes:
        node: The node that the call makes.
        findings: The node's findings, the worst first; empty where it is repeated.
        number: Tells calls that several others read from each other; 0 for all other calls.
        is_repeated: The call stands further up already, with the same number.
    """

    node: Node
    findings: tuple[LintFinding, ...] = ()
    number: int = 0
    is_repeated: bool = False

    @property
    def call(self) -> Call:
        """The call that the user wrote."""
        return describe_call(self.node)


@dataclass(frozen=True)
class Branches:
    """The outlines of all that the next entry reads."""

    outlines: tuple["Outline", ...]


@dataclass(frozen=True)
class Workers:
    """The outline of what runs in the worker processes of the next entry."""

    label: str
    outline: "Outline"


Outline: TypeAlias = tuple[Entry | Branches | Workers, ...]


def outline_graph(graph: VisibleGraph) -> Outline:
    """Return the outline of a graph; each node is described once, where it is reached first."""
    return _Outliner(graph).outline_all(graph.last)


class _Outliner:
    """Follows a graph from the trainer to its sources and numbers the nodes read twice."""

    def __init__(self, graph: VisibleGraph) -> None:
        self._graph = graph
        self._readers = Counter(one for inputs in graph.inputs.values() for one in inputs)
        self._numbers: dict[int, int] = {}

    def outline_all(self, ids: Sequence[int]) -> Outline:
        """Return the outline of nodes that are read together."""
        if len(ids) == 1:
            return self._outline(ids[0])
        return (Branches(tuple(map(self._outline, ids))),) if ids else ()

    def _outline(self, last: int) -> Outline:
        chain = [last]
        # A loop and no recursion: a chain may be longer than Python's stack.
        while self._continues(chain[-1]):
            chain.extend(self._graph.inputs[chain[-1]])
        *others, first = chain
        return (*self._start(first), *map(self._enter, reversed(others)))

    def _continues(self, number: int) -> bool:
        is_boundary = self._graph.nodes[number].kind == "ProcessPrefetch"
        has_one_input = len(self._graph.inputs[number]) == 1
        return has_one_input and not is_boundary and number not in self._numbers

    def _start(self, number: int) -> Iterator[Entry | Branches | Workers]:
        """Yield what stands at the head of a chain, down to its first call."""
        node = self._graph.nodes[number]
        if number in self._numbers:
            yield Entry(node, number=self._numbers[number], is_repeated=True)
            return
        inputs = self._graph.inputs[number]
        if node.kind == "ProcessPrefetch" and inputs:
            yield Workers(_label_workers(node), self.outline_all(inputs))
        else:
            yield from self.outline_all(inputs)
        yield self._enter(number)

    def _enter(self, number: int) -> Entry:
        if self._readers[number] > 1:
            self._numbers[number] = len(self._numbers) + 1
        findings = self._graph.findings.get(number, ())
        return Entry(self._graph.nodes[number], findings, self._numbers.get(number, 0))


def _label_workers(prefetch: Node) -> str:
    workers = prefetch.parameters.get("num_workers")
    if workers is None:
        return "worker processes"
    return "1 worker process" if workers == 1 else f"{workers} worker processes"
