"""How many elements a node gives, as far as the structure tells."""

from collections.abc import Mapping
from graphlib import TopologicalSorter
from math import ceil, floor, inf
from typing import Final

from netpipe.linting.graph.nodes import ENDLESS, Graph, Node

ONE_TO_ONE: Final = (
    "Map",
    "RandomMap",
    "MapWithIndex",
    "Shuffle",
    "WindowShuffle",
    "Cache",
    "ToIter",
    "ThreadPrefetch",
    "Options",
    "Seed",
)


def count_elements(graph: Graph, node: Node) -> float | None:
    """Return how many elements a node gives in one process.

    Returns:
        The number; infinity where they never end; None where it depends on the elements, or on
        something that is not known.
    """
    return count_elements_by_node(graph)[node.id]


def count_elements_by_node(graph: Graph) -> Mapping[int, float | None]:
    """Return the same of every node, by its id."""
    found: dict[int, float | None] = {}
    order = TopologicalSorter({node.id: node.parents for node in graph.nodes}).static_order()
    for one in order:
        node = graph.nodes[one]
        found[one] = _of_node(node, [found[parent] for parent in node.parents])
    return found


def _of_node(node: Node, given: list[float | None]) -> float | None:
    length = _number(node, "length")
    if length is not None:
        return _amount(length)
    if node.kind == "Repeat" and _number(node, "num_epochs") is None:
        return inf
    known = [one for one in given if one is not None]
    return _of_inputs(node, known) if known and len(known) == len(given) else None


def _of_inputs(node: Node, given: list[float]) -> float | None:
    match node.kind:
        case "Slice":
            return _span(node)
        case "Limit":
            return min(given[0], _number(node, "count") or inf)
        case _ if min(given) == inf:
            return inf
        case "Repeat":
            return given[0] * (_number(node, "num_epochs") or 1)
        case "Batch":
            round_off = floor if node.parameters.get("drop_remainder") else ceil
            return round_off(given[0] / (_number(node, "batch_size") or 1))
        case "Concatenate":
            return sum(given)
        case "Zip":
            return min(given)
        case kind:
            return given[0] if kind in ONE_TO_ONE else None


def _span(node: Node) -> float | None:
    start, stop, step = (_number(node, name) for name in ("start", "stop", "step"))
    if start is None or stop is None or not step:
        return None
    return _amount(len(range(start, stop, step)))


def _amount(number: int) -> float:
    return inf if number >= ENDLESS else number


def _number(node: Node, name: str) -> int | None:
    value = node.parameters.get(name)
    return value if isinstance(value, int) else None
