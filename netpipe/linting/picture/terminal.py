"""A pipeline for the terminal: its calls from the source to the trainer, and what is wrong."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from netpipe.linting.linter import LintReport
from netpipe.linting.picture.calls import describe_call
from netpipe.linting.picture.visible_graph import (
    NO_GRAPH,
    TRAINING,
    VisibleGraph,
    label_finding,
    label_workers,
    select_visible,
    shorten_middle,
    shorten_path,
)
from netpipe.linting.rules.finding import LintFinding

MAX_WIDTH: Final = 100  # columns: wider, the eye loses the line between a call and its place
_LONGEST_PLACE: Final = 32
_GAP: Final = 3
_STYLES: Final = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_ASCII: Final = str.maketrans("╭╮╰╯─│┌├└✗▼…", "++++-|.+`xv~")


@dataclass(frozen=True)
class _Row:
    """One line before it is fitted to a width.

    Attributes:
        before: Lines of the branches and boxes at its left.
        after: Lines of the boxes at its right.
        text: The call, or what is written into a border.
        corners: Of the border that the row is; empty for a call.
        findings: On the call.
        made_at: Where the call stands in the user's code.
        dim: Whether it only repeats or explains.
    """

    before: str
    after: str
    text: str
    corners: str = ""
    findings: tuple[LintFinding, ...] = ()
    made_at: str = ""
    dim: bool = False


@dataclass(frozen=True)
class TextPicture:
    """A pipeline as lines of text, drawn when rich prints it.

    It runs from the source at the top to the trainer at the bottom, one call per line. A box
    encloses the calls that run in worker processes, a bracket the branches that a call reads. Each
    finding is marked at all of its calls. A call that several others read is drawn once. On a
    console without UTF-8 the picture is drawn in ASCII.

    Attributes:
        report: The pipeline and its findings.
        width: Columns it may use; at most those of the console and `MAX_WIDTH`.
    """

    report: LintReport
    width: int = MAX_WIDTH

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        """Yield the lines."""
        width = min(self.width, options.max_width, MAX_WIDTH)
        for line in _lines(select_visible(self.report), width):
            yield _in_ascii(line) if options.ascii_only else line


def _lines(pipeline: VisibleGraph, width: int) -> Iterator[Text]:
    if not pipeline.last:
        yield Text(NO_GRAPH)
        return
    rows = _Reading(pipeline).rows()
    margin = max(cell_len(row.after) for row in rows)
    sheet = _Sheet(min(width, max(_natural_width(row) for row in rows) + margin), margin)
    for row in rows:
        yield from sheet.lines(row)


# ---- From the graph to rows


class _Reading:
    """Reads a graph from its sources on and remembers what is drawn already."""

    def __init__(self, pipeline: VisibleGraph) -> None:
        self._pipeline = pipeline
        self._numbers: dict[int, int] = {}

    def rows(self) -> list[_Row]:
        """Return the whole picture's rows."""
        rows, indent = self._before(self._pipeline.last, TRAINING)
        if not rows[0].corners:
            rows.insert(0, _Row("", "", TRAINING, corners="──"))
        return [*rows, _Row(indent, "", "▼ trainer")]

    def _before(self, ids: Sequence[int], process: str) -> tuple[list[_Row], str]:
        """Return the rows of what a node reads, and what is to stand before the node's own row."""
        if len(ids) == 1:
            return self._up_to(ids[0], process)
        rows: list[_Row] = []
        for one in ids:
            branch, _ = self._up_to(one, process)
            rows += [replace(branch[0], before=("├ " if rows else "┌ ") + branch[0].before)]
            rows += [replace(row, before="│ " + row.before) for row in branch[1:]]
        return rows, "└ " if rows else ""

    def _up_to(self, number: int, process: str) -> tuple[list[_Row], str]:
        """Return the rows down to a node, and the indent of the rows that follow it."""
        chain = [number]  # and no recursion: a pipeline may be a long one
        while self._is_in_a_line(chain[-1]):
            chain.extend(self._pipeline.inputs[chain[-1]])
        rows, indent = self._first(chain[-1], process)
        for one in chain[-2::-1]:
            rows.append(self._row(one, indent))
            indent = " " * len(indent)
        return rows, indent

    def _is_in_a_line(self, number: int) -> bool:
        is_box = self._pipeline.nodes[number].kind == "ProcessPrefetch"
        has_one = len(self._pipeline.inputs[number]) == 1
        return has_one and not is_box and number not in self._numbers

    def _first(self, number: int, process: str) -> tuple[list[_Row], str]:
        """Return the same for a node before which the line ends, branches or is in a box."""
        node = self._pipeline.nodes[number]
        if number in self._numbers:
            again = f"{describe_call(node)} #{self._numbers[number]}, as above"
            return [_Row("", "", again, dim=True)], ""
        inputs = self._pipeline.inputs[number]
        if node.kind == "ProcessPrefetch" and inputs:
            rows, indent = self._box(inputs, label_workers(node), process), "  "
        else:
            rows, indent = self._before(inputs, process)
        return [*rows, self._row(number, indent)], " " * len(indent)

    def _row(self, number: int, indent: str) -> _Row:
        node = self._pipeline.nodes[number]
        call = str(describe_call(node))
        if number in self._pipeline.shared:
            self._numbers[number] = len(self._numbers) + 1
            call += f" #{self._numbers[number]}"
        findings = self._pipeline.findings.get(number, ())
        made_at = shorten_path(node.made_at, _LONGEST_PLACE)
        return _Row(indent, "", call, findings=findings, made_at=made_at)

    def _box(self, inputs: Sequence[int], label: str, around: str) -> list[_Row]:
        rows, _ = self._before(inputs, label)
        inside = [replace(row, before="│ " + row.before, after=row.after + " │") for row in rows]
        top, bottom = _Row("", "", label, corners="╭╮"), _Row("", "", around, corners="╰╯")
        return [top, *inside, bottom]


# ---- From rows to lines of a width


def _natural_width(row: _Row) -> int:
    """Columns of a row on one line, without the boxes at its right."""
    parts = [row.text, *map(label_finding, row.findings), *filter(None, [row.made_at])]
    border = 6 if row.corners else 0
    return cell_len(row.before + (" " * _GAP).join(parts)) + border


@dataclass(frozen=True)
class _Sheet:
    """Lays rows out.

    Attributes:
        width: Columns of a line.
        margin: Columns at its right that only boxes use, so that places stand below each other.
    """

    width: int
    margin: int

    def lines(self, row: _Row) -> Iterator[Text]:
        """Yield a row's line, and below it the findings that do not fit beside its call."""
        if row.corners:
            yield self._border(row)
        elif _natural_width(row) + self.margin <= self.width:
            yield self._line(row, _marks(row))
        else:
            yield self._line(row, Text())
            under = row.before.replace("└", " ").replace("┌", "│").replace("├", "│")
            for finding in row.findings:
                below = Text(f"  {label_finding(finding)}", _STYLES[finding.severity])
                yield self._framed(under, below, row.after)

    def _line(self, row: _Row, marks: Text) -> Text:
        room = self.width - self.margin - cell_len(row.before)
        call = (
            Text(shorten_middle(row.text, room - marks.cell_len), "dim" if row.dim else "") + marks
        )
        left = room - call.cell_len - _GAP
        place = shorten_path(row.made_at, left)
        if cell_len(place) <= left:
            call.pad_right(room - call.cell_len - cell_len(place))
            call.append(place, "dim")
        return self._framed(row.before, call, row.after)

    def _framed(self, before: str, inside: Text, after: str) -> Text:
        inside.truncate(self.width - cell_len(before + after), pad=True)
        line = Text.assemble((before, "dim"), inside, (after, "dim"), no_wrap=True)
        line.rstrip()
        return line

    def _border(self, row: _Row) -> Text:
        left, right = row.corners[0], row.corners[1]
        room = self.width - cell_len(row.before + row.after)
        label = shorten_middle(row.text, max(room - 6, 1))
        end = f" {'─' * (room - cell_len(label) - 5)}{right}"
        return Text.assemble(
            (f"{row.before}{left}─ ", "dim"),
            (label, "bold"),
            (end + row.after, "dim"),
            no_wrap=True,
        )


def _marks(row: _Row) -> Text:
    marks = ((" " * _GAP + label_finding(one), _STYLES[one.severity]) for one in row.findings)
    return Text.assemble(*marks)


def _in_ascii(line: Text) -> Text:
    """Draw with other characters of the same width; a name that is not ASCII gets `?` for them."""
    drawn = line.copy()
    drawn.plain = line.plain.translate(_ASCII).encode("ascii", "replace").decode()
    return drawn
