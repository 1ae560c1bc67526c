"""The visible part of a pipeline, in reading order: the user's calls and all findings."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from rich.cells import cell_len, set_cell_size

from netpipe.grain_access.nodes import Graph, Node
from netpipe.linting.linter import LintReport
from netpipe.linting.rules.finding import SEVERITIES, LintFinding, sort_by_severity
from netpipe.reporting.picture.calls import WORKER_COUNT
from netpipe.results.units import format_count

NO_GRAPH: Final = "There is no Grain graph to draw."
TRAINING: Final = "training process"
WORDS: Final[Mapping[str, str]] = {"error": "error", "warning": "warning", "info": "remark"}
SIGNS: Final[Mapping[str, str]] = {"error": "✗", "warning": "!", "info": "i"}

# Nodes that Grain adds around the transformations that the user calls.
_ADDED_BY_GRAIN: Final = (
    "DataLoader", "DataLoaderState", "Options", "WorkerContext", "WorkerSlice",
)  # fmt: skip
_DATA_LOADER_MODULE: Final = "grain._src.python.data_loader."


def label_finding(finding: LintFinding) -> str:
    """Return a finding's label, which marks the calls that it concerns: `! no-workers`."""
    return f"{SIGNS[finding.severity]} {finding.rule}"


def count_findings(report: LintReport) -> str:
    """Return the number of findings per severity, worst first: `1 error, 2 remarks`."""
    counts = Counter(finding.severity for finding in report.findings)
    return ", ".join(format_count(counts[key], WORDS[key]) for key in SEVERITIES if counts[key])


def shorten_path(made_at: str, columns: int) -> str:
    """Drop leading folders from `file:line` until it fits; the file's name always stays."""
    while cell_len(made_at) > columns and "/" in made_at.removeprefix("…/"):
        made_at = "…/" + made_at.removeprefix("…/").split("/", 1)[1]
    return made_at if cell_len(made_at) <= columns else made_at.removeprefix("…/")


def shorten_middle(text: str, columns: int) -> str:
    """Cut the middle out of a text that is wider than `columns`; keep at least one column."""
    if cell_len(text) <= columns:
        return text
    kept = max(columns, 1) - 1
    head = kept * 2 // 3
    tail = set_cell_size(text[::-1], kept - head)[::-1]
    return f"{set_cell_size(text, head)}…{tail}"


@dataclass(frozen=True)
class Entry:
    """A call in an outline.

    Attributes:
        number: The number of a call that several other calls read; 0 for all other calls.
    """

    node: Node
    findings: tuple[LintFinding, ...] = ()
    number: int = 0
    is_repeated: bool = False


@dataclass(frozen=True)
class Branches:
    """The outlines of the branches that the next entry reads."""

    outlines: tuple["Outline", ...]


@dataclass(frozen=True)
class Workers:
    """The outline of the calls that run in the worker processes of the next entry."""

    label: str
    outline: "Outline"


Outline: TypeAlias = tuple[Entry | Branches | Workers, ...]


class VisibleGraph:
    """The nodes that the user wrote or that a finding concerns, by their ids in the whole graph.

    Attributes:
        outline: The calls, starting from the sources; empty without a graph. A node is described
            where it is first reached, and only named again where another call reads it.
    """

    def __init__(self, report: LintReport) -> None:
        graph = report.graph
        self._findings = _group_by_node(report.findings)
        self.nodes: dict[int, Node] = {}
        for node in graph.nodes:
            is_data_loaders = str(node.parameters.get("transform")).startswith(_DATA_LOADER_MODULE)
            is_written = node.kind not in _ADDED_BY_GRAIN and not is_data_loaders
            if is_written or node.id in self._findings:
                self.nodes[node.id] = _with_written_settings(graph, node)
        self._inputs = {
            number: self._find_visible(graph, node.parents) for number, node in self.nodes.items()
        }
        self._readers = Counter(number for inputs in self._inputs.values() for number in inputs)
        self._numbers: dict[int, int] = {}
        self.outline = self._outline_all(self._find_visible(graph, (0,)) if graph.nodes else ())

    def _find_visible(self, graph: Graph, ids: tuple[int, ...]) -> tuple[int, ...]:
        """Return `ids` with each hidden node replaced by the visible nodes that it reads."""
        visible: list[int] = []
        waiting = list(reversed(ids))
        while waiting:
            number = waiting.pop()
            if number in self.nodes:
                visible.append(number)
            else:
                waiting.extend(reversed(graph.nodes[number].parents))
        return tuple(visible)

    def _outline_all(self, ids: tuple[int, ...]) -> Outline:
        if len(ids) == 1:
            return self._outline(ids[0])
        return (Branches(tuple(map(self._outline, ids))),) if ids else ()

    def _outline(self, last: int) -> Outline:
        """Return the calls from the sources, or from a call already listed, up to a node."""
        chain = [last]
        # A loop, because a chain may exceed Python's recursion limit.
        while (
            len(self._inputs[chain[-1]]) == 1
            and self.nodes[chain[-1]].kind != "ProcessPrefetch"
            and chain[-1] not in self._numbers
        ):
            chain.extend(self._inputs[chain[-1]])
        *others, first = chain
        return (*self._start(first), *map(self._enter, reversed(others)))

    def _start(self, number: int) -> Outline:
        node, inputs = self.nodes[number], self._inputs[number]
        if number in self._numbers:
            return (Entry(node, number=self._numbers[number], is_repeated=True),)
        above = self._outline_all(inputs)
        if node.kind == "ProcessPrefetch" and inputs:
            count = node.parameters.get("num_workers")
            processes = "worker process" if count == 1 else "worker processes"
            above = (Workers(processes if count is None else f"{count} {processes}", above),)
        return (*above, self._enter(number))

    def _enter(self, number: int) -> Entry:
        if self._readers[number] > 1:
            self._numbers[number] = len(self._numbers) + 1
        findings = self._findings.get(number, ())
        return Entry(self.nodes[number], findings, self._numbers.get(number, 0))


def _group_by_node(findings: Iterable[LintFinding]) -> Mapping[int, tuple[LintFinding, ...]]:
    grouped: dict[int, tuple[LintFinding, ...]] = {}
    for finding in sort_by_severity(findings):
        for number in set(finding.nodes):
            grouped[number] = (*grouped.get(number, ()), finding)
    return grouped


def _with_written_settings(graph: Graph, node: Node) -> Node:
    """Return a node with the settings as written: no derived seeds, and DataLoader's names."""
    settings = dict(node.parameters)
    if "seed" in settings and any(below.kind == "Seed" for below in graph.below(node)):
        del settings["seed"]
    if node.kind == "ProcessPrefetch" and graph.data_loader is not None:
        settings[WORKER_COUNT] = settings.get("num_workers")
    return replace(node, parameters=settings)
