"""Tables of results for pages and terminals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich import box
from rich import table as terminal
from rich.console import JustifyMethod

from netpipe.reporting.tones import Tone
from netpipe.results.measurement import Interval
from netpipe.results.units import describe_interval, format_number, format_seconds


def new_table(title: str, *headings: str, no_wrap: bool = False) -> terminal.Table:
    """Return an empty table in the common style of the terminal tables."""
    columns = [terminal.Column(heading, no_wrap=no_wrap) for heading in headings]
    return terminal.Table(
        *columns, title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD
    )


@dataclass(frozen=True)
class Cell:
    """A cell of a table, with a smaller note below; `svg` is drawn instead of the text."""

    text: str
    note: str = ""
    tone: Tone = Tone.PLAIN
    svg: str = ""
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
        table = new_table(self.caption)
        for heading, cell in self.rows[0].items():
            justify: JustifyMethod = "right" if cell.is_figure else "left"
            table.add_column(heading, justify=justify, overflow="fold")
        for row in self.rows:
            texts = ((cell.text, cell.note and f"({cell.note})") for cell in row.values())
            table.add_row(*(" ".join(filter(None, text)) for text in texts))
        return table


def format_ratio(value: float) -> str:
    """Format a ratio, as in `0.88` or `20.1`."""
    return f"{value:.2f}" if abs(value) < 10 else format_number(value)


def interval_figure(
    interval: Interval | None,
    write: Callable[[float], str] = format_seconds,
    rate: Callable[[float], Tone] = lambda _: Tone.PLAIN,
) -> Figure:
    """Return the cell of an interval, with a tone for its median; empty for None."""
    if interval is None:
        return Figure("")
    return Figure(*describe_interval(interval, write), rate(interval.median))


def rate_headroom(headroom: float) -> Tone:
    """Return the tone of a headroom: GOOD if the loader keeps up, else BAD."""
    return Tone.GOOD if headroom >= 1 else Tone.BAD
