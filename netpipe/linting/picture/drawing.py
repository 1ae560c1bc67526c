"""A pipeline as one SVG that needs no script, font or other file, in light or dark colors."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple, TypeAlias

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from netpipe.linting.linter import LintReport
from netpipe.linting.picture.calls import describe_call
from netpipe.linting.picture.visible_graph import (
    NO_GRAPH,
    TRAINING,
    Branches,
    Entry,
    Outline,
    VisibleGraph,
    Workers,
    count_findings,
    label_finding,
    shorten_middle,
)
from netpipe.linting.rules.finding import sort_by_severity
from netpipe.printable import make_printable

# Sizes are in px.
_BOX_WIDTH: Final = 360
_BOX_PADDING: Final = 10
_LINE_HEIGHT: Final = 18
_CHIP_HEIGHT: Final = 22
_FRAME_PADDING: Final = 16
_LABEL_HEIGHT: Final = 12
_GAP: Final = 20
_INDENT: Final = 28
# From the left side of a box to the edge that leads down from it.
_EDGE_INSET: Final = 24
# The width in letters that the template reserves for the list of findings.
_LIST_COLUMNS: Final = 96
_MAX_CALLS: Final = 4

Edge: TypeAlias = tuple[tuple[int, int], ...]
"""The x and y of each corner, from top to bottom."""
_Part: TypeAlias = Entry | Branches | Workers | None


def draw_svg(report: LintReport) -> str:
    """Return an SVG of a pipeline, and below it a list of its findings."""
    graph = VisibleGraph(report)
    silenced = f", {len(report.silenced)} silenced" if report.silenced else ""
    heading = (count_findings(report) or "Nothing found") + silenced
    return _render(report, graph, heading, list_findings(report, graph, _LIST_COLUMNS))


def draw_svg_graph(report: LintReport) -> str:
    """Return an SVG of a pipeline with its findings marked, without heading and list."""
    return _render(report, VisibleGraph(report))


def _render(
    report: LintReport, graph: VisibleGraph, heading: str = "", lines: Iterable["Line"] = ()
) -> str:
    subject = "A pipeline" if graph.last else "A loader without a Grain graph"
    calls = "; ".join(str(describe_call(node)) for node in reversed(list(graph.nodes.values())))
    drawing = _template().render(
        layout=Layout(graph.outline),
        heading=heading,
        lines=list(lines),
        subject=f"{subject}, judged for {report.intent} under Grain {report.grain_version}",
        order=f"From the source to the trainer: {calls}" if calls else NO_GRAPH,
    )
    return make_printable(drawing)


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("netpipe.linting.picture"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"columns": cell_len, "label": label_finding, "shorten": shorten_middle}
    return environment.get_template("picture.svg")


@dataclass(frozen=True)
class Box:
    """The box of a call, of the trainer without an entry, or the frame of a process with a label.

    Its x and y are those of the upper left corner.
    """

    x: int
    y: int
    width: int
    height: int
    entry: Entry | None = None
    label: str = ""

    @property
    def right(self) -> int:
        """The x of its right side."""
        return self.x + self.width

    @property
    def bottom(self) -> int:
        """The y of its lower side."""
        return self.y + self.height


class Layout:
    """A picture's boxes in one column from the sources down to the trainer.

    Branches are indented and stand below each other; the edges from their last calls run down at
    their left. A frame encloses the calls of one process; the frames of workers lie in the frame of
    the process that starts them, which comes first. The upper left corner is at 0, 0.
    """

    def __init__(self, outline: Outline) -> None:
        self.boxes: list[Box] = []
        self.frames: list[Box] = []
        self.edges: list[Edge] = []
        self.width = self.height = 0
        self._bottom = -_GAP
        # The beginnings of the edges that lead to the next box.
        self._open_edges: list[Edge] = []
        if outline:
            self._add_frame(TRAINING, (*outline, None), 0)
            self.width, self.height = self.frames[0].right, self.frames[0].bottom

    def _add_frame(self, label: str, parts: Sequence[_Part], x: int) -> None:
        number, first_box = len(self.frames), len(self.boxes)
        top = self._bottom + _GAP
        self._bottom = top + _LABEL_HEIGHT
        self._add_all(parts, x + _FRAME_PADDING)
        self._bottom += _FRAME_PADDING
        inside = [*self.boxes[first_box:], *self.frames[number:]]
        width = max(box.right for box in inside) + _FRAME_PADDING - x
        self.frames.insert(number, Box(x, top, width, self._bottom - top, label=label))

    def _add_all(self, parts: Sequence[_Part], x: int) -> None:
        for part in parts:
            match part:
                case Branches():
                    beginnings: list[Edge] = []
                    for outline in part.outlines:
                        self._open_edges = []
                        self._add_all(outline, x + _INDENT)
                        last = self.boxes[-1]
                        middle = last.y + last.height // 2
                        beginnings.append(((last.x, middle), (x + _INDENT // 2, middle)))
                    self._open_edges = beginnings
                case Workers():
                    self._add_frame(part.label, part.outline, x)
                case _:
                    self._add_box(part, x)

    def _add_box(self, entry: Entry | None, x: int) -> None:
        if entry is None:
            height = _LINE_HEIGHT + _BOX_PADDING
        else:
            lines = 2 if entry.call.arguments and not entry.is_repeated else 1
            chips = len(entry.findings) * _CHIP_HEIGHT
            height = 2 * _BOX_PADDING + lines * _LINE_HEIGHT - 4 + chips
        box = Box(x, self._bottom + _GAP, _BOX_WIDTH, height, entry)
        self.boxes.append(box)
        self.edges += [(*start, (start[-1][0], box.y)) for start in self._open_edges]
        self._open_edges = [((x + _EDGE_INSET, box.bottom),)]
        self._bottom = box.bottom


class Line(NamedTuple):
    """A line of the list: its CSS classes, the label that it begins with, and the rest of it."""

    style: str = ""
    label: str = ""
    content: str = ""


def list_findings(report: LintReport, graph: VisibleGraph, columns: int) -> Iterator[Line]:
    """Yield every finding with its calls, message, cost, fix and proof; then what is silenced."""
    for finding in sort_by_severity(report.findings):
        yield Line(f"rule {finding.severity}", "", shorten_middle(label_finding(finding), columns))
        nodes = [graph.nodes[number] for number in finding.nodes]
        calls = [f"{describe_call(node)} ({node.made_at})".removesuffix(" ()") for node in nodes]
        more = f" and {len(calls) - _MAX_CALLS} more" if len(calls) > _MAX_CALLS else ""
        yield from _wrap("faint", "", ", ".join(calls[:_MAX_CALLS]) + more, columns)
        yield from _wrap("prose", "", finding.message, columns)
        yield from _wrap("prose", "Cost:", finding.cost, columns)
        yield from _wrap("prose", "Fix:", finding.fix, columns)
        yield from _wrap("prose", "Tried:", finding.proof, columns)
        yield Line()
    for rule, reason in dict.fromkeys((each.rule, each.reason) for each in report.silenced):
        yield from _wrap("faint", "Silenced:", f"{rule}: {reason}", columns)


def _wrap(style: str, label: str, text: str, columns: int) -> Iterator[Line]:
    """Yield the lines of a text; a word that is longer than a line is cut."""
    if not text:
        return
    first, *others = Text(f"{label} {text}".strip()).wrap(Console(), columns)
    yield Line(style, label, first.plain.removeprefix(label))
    for line in others:
        yield Line(style, "", line.plain)
