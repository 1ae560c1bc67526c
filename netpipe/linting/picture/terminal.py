"""A pipeline as text for the terminal."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from netpipe.linting.linter import LintReport
from netpipe.linting.picture.outline import Branches, Entry, Outline, Workers, outline_graph
from netpipe.linting.picture.visible_graph import (
    NO_GRAPH,
    TRAINING,
    VisibleGraph,
    label_finding,
    select_visible,
    shorten_middle,
    shorten_path,
)
from netpipe.linting.rules.finding import LintFinding

# In columns. In a wider picture the eye loses the line between a call and its place.
MAX_WIDTH: Final = 100
_MAX_PLACE_WIDTH: Final = 32
_GAP: Final = 3
_STYLES: Final = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_ASCII: Final = str.maketrans("╭╮╰╯─│┌├└✗▼…", "++++-|.+`xv~")


@dataclass(frozen=True)
class _Row:
    """A line before it is fitted to a width.

    Attributes:
        before: The lines of branches and boxes at its left.
        after: The lines of boxes at its right.
        text: The call, or the label of a border.
        corners: The corners of a border; empty for a call.
        findings: The findings on the call.
        made_at: Where the call stands in the user's code.
        dim: Whether the row only repeats another one.
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


def _lines(graph: VisibleGraph, width: int) -> Iterator[Text]:
    if not graph.last:
        yield Text(NO_GRAPH)
        return
    rows = _all_rows(outline_graph(graph))
    margin = max(cell_len(row.after) for row in rows)
    sheet = _Sheet(min(width, max(_natural_width(row) for row in rows) + margin), margin)
    for row in rows:
        yield from sheet.lines(row)


# ---- From the outline to rows


def _all_rows(outline: Outline) -> list[_Row]:
    rows, indent = _rows(outline, TRAINING)
    if not rows[0].corners:
        rows.insert(0, _Row("", "", TRAINING, corners="──"))
    return [*rows, _Row(indent, "", "▼ trainer")]


def _rows(outline: Outline, process: str) -> tuple[list[_Row], str]:
    """Return the rows of an outline, and the indent of the row that follows them."""
    rows: list[_Row] = []
    indent = ""
    for part in outline:
        match part:
            case Entry():
                rows.append(_entry_row(part, indent))
                indent = " " * len(indent)
            case Workers():
                rows += _boxed_rows(part, process)
                indent = "  "
            case Branches():
                rows += _branch_rows(part, process)
                indent = "└ "
    return rows, indent


def _entry_row(entry: Entry, indent: str) -> _Row:
    call = f"{entry.call} #{entry.number}" if entry.number else str(entry.call)
    if entry.is_repeated:
        return _Row(indent, "", f"{call}, as above", dim=True)
    made_at = shorten_path(entry.node.made_at, _MAX_PLACE_WIDTH)
    return _Row(indent, "", call, findings=entry.findings, made_at=made_at)


def _boxed_rows(workers: Workers, around: str) -> list[_Row]:
    rows, _ = _rows(workers.outline, workers.label)
    inside = [replace(row, before="│ " + row.before, after=row.after + " │") for row in rows]
    top, bottom = _Row("", "", workers.label, corners="╭╮"), _Row("", "", around, corners="╰╯")
    return [top, *inside, bottom]


def _branch_rows(branches: Branches, process: str) -> list[_Row]:
    rows: list[_Row] = []
    for outline in branches.outlines:
        branch, _ = _rows(outline, process)
        rows += [replace(branch[0], before=("├ " if rows else "┌ ") + branch[0].before)]
        rows += [replace(row, before="│ " + row.before) for row in branch[1:]]
    return rows


# ---- From rows to lines of a width


def _natural_width(row: _Row) -> int:
    """Return the columns of a row on one line, without the boxes at its right."""
    parts = [row.text, *map(label_finding, row.findings), *filter(None, [row.made_at])]
    border = 6 if row.corners else 0
    return cell_len(row.before + (" " * _GAP).join(parts)) + border


@dataclass(frozen=True)
class _Sheet:
    """Fits rows to a width.

    Attributes:
        width: Columns of a line.
        margin: Columns at the right that only boxes use, so that all places end in one column.
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
        shortened = shorten_middle(row.text, room - marks.cell_len)
        call = Text(shortened, "dim" if row.dim else "") + marks
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
    copy = line.copy()
    copy.plain = line.plain.translate(_ASCII).encode("ascii", "replace").decode()
    return copy
