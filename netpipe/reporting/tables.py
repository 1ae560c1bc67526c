"""Tables of results for pages and terminals."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, compress
from operator import sub
from typing import ClassVar, Final

from rich import box
from rich import table as terminal
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from netpipe.reporting.tones import Tone
from netpipe.results.measurement import Interval
from netpipe.results.units import describe_interval, format_number, format_seconds

# Between words, except before a unit, and between the parts of a name
_BREAK: Final = re.compile(r"(?<=[^\d\s]\s)|(?<=\w[-./:(\[])(?=[^\W\d])(?!py:)")
_MODULES: Final = re.compile(r"\b(?:[^\W\d]\w*\.)+(?=[^\W\d])")


class TerminalTable(terminal.Table):
    """A table that wraps between words; if it is still too wide, its rows become lists."""

    def __init__(
        self, title: str, *columns: terminal.Column | str, rows: Iterable[Iterable[str]] = ()
    ) -> None:
        super().__init__(*columns, title=title, title_justify="left", box=box.SIMPLE_HEAD)
        self.title_style = "bold"
        for row in rows:
            self.add_row(*row)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the table or the lists."""
        columns = [[str(column.header), *map(str, column.cells)] for column in self.columns]
        pieces = [chain.from_iterable(map(_BREAK.split, column)) for column in columns]
        least, widths = ([max(map(cell_len, each)) for each in of] for of in (pieces, columns))
        headings, *rows = zip(*columns, strict=True)
        _, right, _, left = self.padding
        room = options.max_width - len(columns) * (left + right + 1) - 1
        if sum(least) > room:
            yield Text(f"{self.title}\n", "bold")
            for cells in rows:
                lines = compress(map("  {}: {}".format, headings, cells), cells)
                yield "\n".join(_wrap(line, options.max_width) for line in lines) + "\n"
            return
        while sum(widths) > room:
            slack = [*map(sub, widths, least)]
            widths[slack.index(max(slack))] -= 1
        fitted = TerminalTable(str(self.title))
        fitted.padding = self.padding
        for column, heading in zip(self.columns, map(_wrap, headings, widths), strict=True):
            fitted.add_column(heading, justify=column.justify)
        for row, cells in zip(self.rows, rows, strict=True):
            fitted.add_row(*map(_wrap, cells, widths), style=row.style)
        yield from super(TerminalTable, fitted).__rich_console__(console, options)


def _wrap(text: str, width: int) -> str:
    lines = [""]
    for piece in _BREAK.split(text):
        if lines[-1] and cell_len(lines[-1] + piece.rstrip()) > width:
            lines.append("")
        lines[-1] += piece
    return "\n".join(map(str.rstrip, lines))


@dataclass(frozen=True)
class Cell:
    """A cell of a table, with a smaller note below."""

    text: str
    note: str = ""
    tone: Tone = Tone.PLAIN
    is_code: bool = False
    is_figure: bool = False


@dataclass(frozen=True)
class Figure(Cell):
    """A right-aligned cell."""

    is_figure: bool = True


@dataclass(frozen=True)
class Table:
    """A table of one or more rows with a cell per heading; a wide one takes the page's width."""

    kind: ClassVar[str] = "table"
    heading: str
    caption: str
    rows: Sequence[Mapping[str, Cell]]
    is_wide: bool = False

    def for_terminal(self) -> terminal.Table:
        """Return the table with each note in parentheses after its text."""
        table = TerminalTable(self.caption)
        for heading, cell in self.rows[0].items():
            table.add_column(heading, justify="right" if cell.is_figure else "left")
        for row in self.rows:
            texts = ((cell.text, cell.note and f"({cell.note})") for cell in row.values())
            table.add_row(*(" ".join(filter(None, text)) for text in texts))
        return table


def format_ratio(value: float) -> str:
    """Format a ratio, as in `0.88` or `20.1`."""
    return f"{value:.2f}" if abs(value) < 10 else format_number(value)


def interval_figure(
    interval: Interval | None, write: Callable[[float], str] = format_seconds
) -> Figure:
    """Return the cell of an interval; empty for None."""
    return Figure(*describe_interval(interval, write)) if interval else Figure("")


def strip_modules(text: str) -> str:
    """Remove the modules of functions: `Map of mine.input.tokenize` becomes `Map of tokenize`."""
    return _MODULES.sub("", text)


def capitalize(text: str) -> str:
    """Capitalize the first letter and leave the rest unchanged."""
    return text[:1].upper() + text[1:]
