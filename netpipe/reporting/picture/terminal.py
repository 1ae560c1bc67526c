"""A pipeline as text for the terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Final

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

from netpipe.linting.linter import LintReport
from netpipe.linting.rules.finding import LintFinding, sort_by_severity
from netpipe.reporting.picture.calls import describe_call
from netpipe.reporting.picture.visible_graph import (
    NO_GRAPH,
    TRAINING,
    Branches,
    Entry,
    VisibleGraph,
    Workers,
    label_finding,
    shorten_middle,
    shorten_path,
)

# In columns. In a wider picture, a call and its source line would be too far apart to match.
_MAX_WIDTH: Final = 100
_MAX_PATH_WIDTH: Final = 32
_GAP: Final = "   "
_TRAINER: Final = Text("▼ trainer")
_STYLES: Final = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_ASCII: Final = str.maketrans("╭╮╰╯─│┌├└✗▼…", "++++-|.+`xv~")


@dataclass(frozen=True)
class TextPicture:
    """A pipeline as lines of text, from the source to the trainer, drawn when rich prints it.

    A box encloses calls that run in worker processes; a bracket joins the branches that a call
    reads. Each finding is marked at all of its calls. A console without UTF-8 gets ASCII.
    """

    report: LintReport

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        for line in self._lines(min(options.max_width, _MAX_WIDTH)):
            line.rstrip()
            if options.ascii_only:
                line.plain = line.plain.translate(_ASCII).encode("ascii", "replace").decode()
            yield line

    def _lines(self, width: int) -> Iterator[Text]:
        visible = VisibleGraph(self.report)
        if not visible.outline:
            yield Text(NO_GRAPH)
            return
        # Source lines end where they do in a box.
        margin = 2 * any(node.kind == "ProcessPrefetch" for node in visible.nodes.values())
        first, *others = _draw((*visible.outline, None), TRAINING, width, margin)
        if "╭" not in first.plain:
            yield _draw_border("──", TRAINING, width)
        yield from (first, *others)


def print_report(console: Console, report: LintReport) -> None:
    """Print the picture of a pipeline, its findings (worst first) and the silenced findings."""
    if report.graph.nodes:
        console.print(TextPicture(report))
    for finding in sort_by_severity(report.findings):
        _print_finding(console, finding)
    if not report.findings:
        console.print(f"no findings (intent: {report.intent})")
    for silenced in report.silenced:
        console.print(f"silenced: {silenced.rule}: {silenced.reason}")


def _print_finding(console: Console, finding: LintFinding) -> None:
    text = f" {finding.rule}: {finding.message}"
    console.print(Text.assemble((finding.severity, "bold"), text))
    for field in ("proof", "cost", "fix"):
        if text := getattr(finding, field):
            line = f"{field}: {text}"
            indented = fill(line, console.width, initial_indent="  ", subsequent_indent="  ")
            console.print(indented, soft_wrap=True)


def _draw(
    parts: Sequence[Entry | Workers | Branches | None], process: str, width: int, margin: int
) -> Iterator[Text]:
    """Yield the lines for calls in a process; None stands for the trainer."""
    indent = ""
    for part in parts:
        match part:
            case Workers():
                yield _draw_border("╭╮", part.label, width)
                for line in _draw(part.outline, part.label, width - 4, 0):
                    line.truncate(width - 4, pad=True)
                    yield Text.assemble(("│ ", "dim"), line, (" │", "dim"))
                yield _draw_border("╰╯", process, width)
                indent = "  "
            case Branches():
                corner = "┌ "
                for outline in part.outlines:
                    for line in _draw(outline, process, width - 2, margin):
                        yield Text.assemble((corner, "dim"), line)
                        corner = "│ "
                    corner = "├ "
                indent = "└ "
            case _:
                lines = _draw_call(part, width - margin - len(indent)) if part else [_TRAINER]
                for line in lines:
                    yield Text.assemble((indent, "dim"), line)
                    indent = " " * len(indent)


def _draw_border(corners: str, label: str, width: int) -> Text:
    label = shorten_middle(label, max(width - 6, 1))
    line = "─" * (width - cell_len(label) - 5)
    border = Text.assemble((f"{corners[0]}─ ", "dim"), (label, "bold"), no_wrap=True)
    return border.append(f" {line}{corners[1]}", "dim")


def _draw_call(entry: Entry, width: int) -> Iterator[Text]:
    """Yield the line of a call, then its findings if they do not all fit on that line."""
    text = describe_call(entry.node) + (f" #{entry.number}" if entry.number else "")
    text, made_at = (f"{text}, as above", "") if entry.is_repeated else (text, entry.node.made_at)
    path = shorten_path(made_at, _MAX_PATH_WIDTH)
    parts = (text, *map(label_finding, entry.findings), *filter(None, [path]))
    is_wide = cell_len(_GAP.join(parts)) <= width
    marks = Text()
    for finding in entry.findings if is_wide else ():
        marks.append(_GAP + label_finding(finding), _STYLES[finding.severity])
    text = shorten_middle(text, width - marks.cell_len)
    call = Text(text, "dim" if entry.is_repeated else "") + marks
    left = width - call.cell_len - len(_GAP)
    path = shorten_path(path, left)
    if cell_len(path) <= left:
        call.pad_right(width - call.cell_len - cell_len(path))
        call.append(path, "dim")
    yield call
    for finding in () if is_wide else entry.findings:
        yield Text(f"  {label_finding(finding)}", _STYLES[finding.severity])
