"""How many elements each node yields, as far as the graph tells."""

from collections.abc import Mapping
from graphlib import TopologicalSorter
from math import ceil, floor, inf
from typing import Final

from netpipe.linting.graph.nodes import ENDLESS, Graph, Node

# One output element per input element.
ONE_TO_ONE: Final = (
    *("Map", "RandomMap", "MapWithIndex", "Shuffle", "WindowShuffle"),
    *("Cache", "ToIter", "ThreadPrefetch", "Options", "Seed"),
)


def count_elements(graph: Graph) -> Mapping[int, float | None]:
    """Count the elements that each node yields in one process.

    Returns:
        By node id: the count; inf where the elements never end; None where it depends on the
        elements, or on a class that is not known.
    """
    counts: dict[int, float | None] = {}
    order = TopologicalSorter({node.id: node.parents for node in graph.nodes}).static_order()
    for number in order:
        node = graph.nodes[number]
        counts[number] = _count(node, [counts[parent] for parent in node.parents])
    return counts


def _count(node: Node, inputs: list[float | None]) -> float | None:
    length = node.integer("length")
    if length is not None:
        return _limit(length)
    if node.kind == "Repeat" and node.integer("num_epochs") is None:
        return inf
    known = [count for count in inputs if count is not None]
    return _count_from_inputs(node, known) if known and len(known) == len(inputs) else None


def _count_from_inputs(node: Node, inputs: list[float]) -> float | None:
    match node.kind:
        case "Slice":
            start, stop, step = (node.integer(name) for name in ("start", "stop", "step"))
            if start is None or stop is None or not step:
                return None
            return _limit(len(range(start, stop, step)))
        case "Limit":
            return min(inputs[0], node.integer("count") or inf)
        case _ if min(inputs) == inf:
            return inf
        case "Repeat":
            return inputs[0] * (node.integer("num_epochs") or 1)
        case "Batch":
            round_off = floor if node.parameters.get("drop_remainder") else ceil
            return round_off(inputs[0] / (node.integer("batch_size") or 1))
        case "Concatenate":
            return sum(inputs)
        case "Zip":
            return min(inputs)
        case kind:
            return inputs[0] if kind in ONE_TO_ONE else None


def _limit(length: int) -> float:
    return inf if length >= ENDLESS else length
