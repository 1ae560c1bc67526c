"""The part of a pipeline's graph that a picture shows: the user's own calls, and all findings."""

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

# Grain puts these around the transformations that a user calls.
_ADDED_BY_GRAIN: Final = (
    "Options",
    "WorkerContext",
    "WorkerSlice",
    "DataLoaderState",
    "DataLoader",
)
_DATA_LOADER_MODULE: Final = "grain._src.python.data_loader."


@dataclass(frozen=True)
class VisibleGraph:
    """The nodes that a picture shows.

    Attributes:
        nodes: The nodes by their ids in the whole graph.
        inputs: For each node, the visible nodes that its elements come from.
        last: The nodes that the trainer reads; empty if there is nothing to show.
        findings: The findings on each node that has any, the worst first.
    """

    nodes: Mapping[int, Node]
    inputs: Mapping[int, tuple[int, ...]]
    last: tuple[int, ...]
    findings: Mapping[int, tuple[LintFinding, ...]]


def select_visible(report: LintReport) -> VisibleGraph:
    """Leave out nodes that the user did not write and that no finding is about."""
    graph, findings = report.graph, _findings_by_node(report)
    nodes = {
        node.id: _with_written_settings(graph, node)
        for node in graph.nodes
        if _is_written(node) or node.id in findings
    }
    return VisibleGraph(
        nodes=nodes,
        inputs={one: tuple(_nearest(graph, nodes, node.parents)) for one, node in nodes.items()},
        last=tuple(_nearest(graph, nodes, (0,))) if graph.nodes else (),
        findings=findings,
    )


def label_finding(finding: LintFinding) -> str:
    """Return the label that marks the calls that a finding is about: `! no-workers`."""
    return f"{SIGNS[finding.severity]} {finding.rule}"


def sort_by_severity(findings: Iterable[LintFinding]) -> Sequence[LintFinding]:
    """Return errors, then warnings, then remarks."""
    return sorted(findings, key=lambda finding: SEVERITIES.index(finding.severity))


def shorten_path(made_at: str, columns: int) -> str:
    """Remove folders from the left of `file:line` until it fits; the file's name always stays."""
    while cell_len(made_at) > columns and "/" in made_at.removeprefix("…/"):
        made_at = "…/" + made_at.removeprefix("…/").split("/", 1)[1]
    return made_at if cell_len(made_at) <= columns else made_at.removeprefix("…/")


def shorten_middle(text: str, columns: int) -> str:
    """Cut the middle out of a text that is wider than some columns, at least one."""
    if cell_len(text) <= columns:
        return text
    kept = max(columns, 1) - 1
    head = kept * 2 // 3
    tail = set_cell_size(text[::-1], kept - head)[::-1]
    return f"{set_cell_size(text, head)}…{tail}"


def _is_written(node: Node) -> bool:
    is_data_loaders = str(node.parameters.get("transform")).startswith(_DATA_LOADER_MODULE)
    return node.kind not in _ADDED_BY_GRAIN and not is_data_loaders


def _with_written_settings(graph: Graph, node: Node) -> Node:
    """Give a node the settings that the user wrote.

    Above a `.seed(...)` Grain derives the seeds, and a DataLoader's workers are its own argument.
    """
    settings = dict(node.parameters)
    if "seed" in settings and any(below.kind == "Seed" for below in graph.below(node)):
        del settings["seed"]
    if node.kind == "ProcessPrefetch" and graph.data_loader is not None:
        settings[WORKER_COUNT] = settings.get("num_workers")
    return replace(node, parameters=settings)


def _findings_by_node(report: LintReport) -> Mapping[int, tuple[LintFinding, ...]]:
    by_node: dict[int, tuple[LintFinding, ...]] = {}
    for finding in sort_by_severity(report.findings):
        for node in set(finding.nodes):
            by_node[node] = (*by_node.get(node, ()), finding)
    return by_node


def _nearest(graph: Graph, nodes: Mapping[int, Node], ids: tuple[int, ...]) -> Iterator[int]:
    """Yield the ids of visible nodes; in place of each other one, the visible nodes it reads."""
    waiting = list(reversed(ids))
    while waiting:
        number = waiting.pop()
        if number in nodes:
            yield number
        else:
            waiting.extend(reversed(graph.nodes[number].parents))
