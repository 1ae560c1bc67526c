"""What of a pipeline's graph a picture shows: what the user wrote, and what was found on it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rich.cells import cell_len, set_cell_size

from netpipe.linting.graph.nodes import Graph, Node
from netpipe.linting.linter import LintReport
from netpipe.linting.picture.calls import WORKER_COUNT
from netpipe.linting.rules.finding import LintFinding

NO_GRAPH: Final = "There is no Grain graph to draw."
TRAINING: Final = "training process"
SEVERITIES: Final = ("error", "warning", "info")
SIGNS: Final[Mapping[str, str]] = {"error": "✗", "warning": "!", "info": "i"}

# What Grain puts around the transformations that a user calls.
_UNWRITTEN: Final = (
    "Options",
    "WorkerContext",
    "WorkerSlice",
    "DataLoaderState",
    "DataLoader",
)
_OF_DATA_LOADER: Final = "grain._src.python.data_loader."


@dataclass(frozen=True)
class VisibleGraph:
    """The nodes that are drawn.

    Attributes:
        nodes: By their ids in the graph.
        inputs: For each of them, the drawn nodes that its elements come from.
        last: The nodes that the trainer reads; without any there is nothing to draw.
        findings: What was found on each node, the worst first; nodes without any are left out.
    """

    nodes: Mapping[int, Node]
    inputs: Mapping[int, tuple[int, ...]]
    last: tuple[int, ...]
    findings: Mapping[int, tuple[LintFinding, ...]]

    @property
    def shared(self) -> frozenset[int]:
        """Nodes that are read more than once."""
        readers = Counter(one for inputs in self.inputs.values() for one in inputs)
        return frozenset(node for node, count in readers.items() if count > 1)


def select_visible(report: LintReport) -> VisibleGraph:
    """Leave out what the user did not write, unless something was found on it."""
    graph, findings = report.graph, _by_node(report)
    nodes = {
        node.id: _as_written(graph, node)
        for node in graph.nodes
        if _is_written(node) or node.id in findings
    }
    return VisibleGraph(
        nodes=nodes,
        inputs={one: tuple(_nearest(graph, nodes, node.parents)) for one, node in nodes.items()},
        last=tuple(_nearest(graph, nodes, (0,))) if graph.nodes else (),
        findings=findings,
    )


def label_workers(prefetch: Node) -> str:
    """Name the processes in which everything below an `mp_prefetch` runs."""
    workers = prefetch.parameters.get("num_workers")
    if workers is None:
        return "worker processes"
    return "1 worker process" if workers == 1 else f"{workers} worker processes"


def label_finding(finding: LintFinding) -> str:
    """Return the few words that stand at the calls a finding is about."""
    return f"{SIGNS[finding.severity]} {finding.rule}"


def sort_by_severity(findings: Iterable[LintFinding]) -> Sequence[LintFinding]:
    """Return errors, then warnings, then remarks."""
    return sorted(findings, key=lambda one: SEVERITIES.index(one.severity))


def shorten_path(made_at: str, columns: int) -> str:
    """Shorten the path of a place in the user's code from its left, down to the file's name."""
    while cell_len(made_at) > columns and "/" in made_at.removeprefix("…/"):
        made_at = "…/" + made_at.removeprefix("…/").split("/", 1)[1]
    return made_at if cell_len(made_at) <= columns else made_at.removeprefix("…/")


def shorten_middle(text: str, columns: int) -> str:
    """Cut the middle out of a text of more than some columns, one at least."""
    if cell_len(text) <= columns:
        return text
    kept = max(columns, 1) - 1
    head = kept * 2 // 3
    tail = set_cell_size(text[::-1], kept - head)[::-1]
    return f"{set_cell_size(text, head)}…{tail}"


def _is_written(node: Node) -> bool:
    is_loaders = str(node.parameters.get("transform")).startswith(_OF_DATA_LOADER)
    return node.kind not in _UNWRITTEN and not is_loaders


def _as_written(graph: Graph, node: Node) -> Node:
    """Give a node the settings that the user gave it.

    Above a `.seed(...)` Grain derives the seeds, and a DataLoader's workers are its argument.
    """
    told = dict(node.parameters)
    if "seed" in told and any(one.kind == "Seed" for one in graph.below(node)):
        del told["seed"]
    if node.kind == "ProcessPrefetch" and graph.data_loader is not None:
        told[WORKER_COUNT] = told.get("num_workers")
    return replace(node, parameters=told)


def _by_node(report: LintReport) -> Mapping[int, tuple[LintFinding, ...]]:
    found = sort_by_severity(report.findings)
    marked = {node for finding in found for node in finding.nodes}
    return {node: tuple(one for one in found if node in one.nodes) for node in marked}


def _nearest(graph: Graph, nodes: Mapping[int, Node], ids: tuple[int, ...]) -> Iterator[int]:
    """Yield the drawn nodes among some, and in place of each other one those that it reads."""
    waiting = list(reversed(ids))
    while waiting:
        one = waiting.pop()
        if one in nodes:
            yield one
        else:
            waiting.extend(reversed(graph.nodes[one].parents))
