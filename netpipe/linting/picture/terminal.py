"""A pipeline as text for the terminal."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from netpipe.linting.linter import LintReport
from netpipe.linting.picture.visible_graph import (
    NO_GRAPH,
    TRAINING,
    Branches,
    Entry,
    Outline,
    VisibleGraph,
    Workers,
    label_finding,
    shorten_middle,
    shorten_path,
)
from netpipe.linting.rules.finding import LintFinding

# In columns. In a wider picture the eye loses the line between a call and its source line.
_MAX_WIDTH: Final = 100
_MAX_PATH_WIDTH: Final = 32
_GAP: Final = "   "
_STYLES: Final = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_BELOW_CALL: Final = str.maketrans("└┌├", " ││")
_ASCII: Final = str.maketrans("╭╮╰╯─│┌├└✗▼…", "++++-|.+`xv~")


@dataclass(frozen=True)
class TextPicture:
    """A pipeline as lines of text, from the source to the trainer, drawn when rich prints it.

    A box encloses the calls that run in worker processes, a bracket the branches that a call reads.
    Each finding is marked at all of its calls. On a console without UTF-8 the picture is in ASCII.
    """

    report: LintReport

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        for line in self._lines(min(options.max_width, _MAX_WIDTH)):
            if options.ascii_only:
                line.plain = line.plain.translate(_ASCII).encode("ascii", "replace").decode()
            yield line

    def _lines(self, width: int) -> Iterator[Text]:
        outline = VisibleGraph(self.report).outline
        if not outline:
            yield Text(NO_GRAPH)
            return
        rows, indent = _make_rows(outline, TRAINING)
        if not rows[0].corners:
            rows.insert(0, _Row("", TRAINING, corners="──"))
        rows.append(_Row(indent, "▼ trainer"))
        # Only boxes use these columns at the right, so that all source lines end in one column.
        margin = max(cell_len(row.after) for row in rows)
        width = min(width, margin + max(row.natural_width for row in rows))
        for row in rows:
            yield from row.border(width) if row.corners else row.call(width, margin)


@dataclass(frozen=True)
class _Row:
    """A line before it is fitted to a width: a call, or with corners the labelled side of a box.

    Attributes:
        before: The lines of branches and boxes at its left.
        after: The lines of boxes at its right.
    """

    before: str
    text: str
    after: str = ""
    corners: str = ""
    findings: tuple[LintFinding, ...] = ()
    made_at: str = ""
    is_repeated: bool = False

    @property
    def natural_width(self) -> int:
        """The columns of the row on one line, without the boxes at its right."""
        parts = [self.text, *map(label_finding, self.findings), *filter(None, [self.made_at])]
        border = 6 if self.corners else 0
        return cell_len(self.before + _GAP.join(parts)) + border

    def border(self, width: int) -> Iterator[Text]:
        """Yield the upper or lower line of a box, with its label."""
        room = width - cell_len(self.before + self.after)
        label = shorten_middle(self.text, max(room - 6, 1))
        line = "─" * (room - cell_len(label) - 5)
        yield Text.assemble(
            (f"{self.before}{self.corners[0]}─ ", "dim"),
            (label, "bold"),
            (f" {line}{self.corners[1]}{self.after}", "dim"),
            no_wrap=True,
        )

    def call(self, width: int, margin: int) -> Iterator[Text]:
        """Yield the line of a call, and below it the findings that do not fit beside it."""
        room = width - margin - cell_len(self.before)
        call, below = Text(), list(self.findings)
        if self.natural_width + margin <= width:
            for finding in self.findings:
                call.append(_GAP + label_finding(finding), _STYLES[finding.severity])
            below = []
        text = shorten_middle(self.text, room - call.cell_len)
        call = Text(text, "dim" if self.is_repeated else "") + call
        left = room - call.cell_len - len(_GAP)
        path = shorten_path(self.made_at, left)
        if cell_len(path) <= left:
            call.pad_right(room - call.cell_len - cell_len(path))
            call.append(path, "dim")
        yield self._frame(self.before, call, width)
        under = self.before.translate(_BELOW_CALL)
        for finding in below:
            label = Text(f"  {label_finding(finding)}", _STYLES[finding.severity])
            yield self._frame(under, label, width)

    def _frame(self, before: str, inside: Text, width: int) -> Text:
        inside.truncate(width - cell_len(before + self.after), pad=True)
        line = Text.assemble((before, "dim"), inside, (self.after, "dim"), no_wrap=True)
        line.rstrip()
        return line


def _make_rows(outline: Outline, process: str) -> tuple[list[_Row], str]:
    """Return the rows of an outline, and the indent of the row that follows them."""
    rows: list[_Row] = []
    indent = ""
    for part in outline:
        match part:
            case Entry():
                rows.append(_make_entry_row(part, indent))
                indent = " " * len(indent)
            case Workers():
                rows += _make_worker_rows(part, process)
                indent = "  "
            case Branches():
                rows += _make_branch_rows(part, process)
                indent = "└ "
    return rows, indent


def _make_entry_row(entry: Entry, indent: str) -> _Row:
    call = f"{entry.call} #{entry.number}" if entry.number else str(entry.call)
    if entry.is_repeated:
        return _Row(indent, f"{call}, as above", is_repeated=True)
    made_at = shorten_path(entry.node.made_at, _MAX_PATH_WIDTH)
    return _Row(indent, call, findings=entry.findings, made_at=made_at)


def _make_worker_rows(workers: Workers, process: str) -> Iterator[_Row]:
    yield _Row("", workers.label, corners="╭╮")
    for row in _make_rows(workers.outline, workers.label)[0]:
        yield replace(row, before=f"│ {row.before}", after=f"{row.after} │")
    yield _Row("", process, corners="╰╯")


def _make_branch_rows(branches: Branches, process: str) -> Iterator[_Row]:
    corner = "┌ "
    for outline in branches.outlines:
        for row in _make_rows(outline, process)[0]:
            yield replace(row, before=corner + row.before)
            corner = "│ "
        corner = "├ "
