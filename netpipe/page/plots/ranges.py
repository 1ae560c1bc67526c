"""Medians with their intervals, one below the other, beside a line that means something."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netpipe.linting.picture.visible_graph import shorten_middle
from netpipe.page.plots.canvas import SMALL, Ink, axes_in, drawn, rule_at_ticks, write
from netpipe.page.plots.scales import finite, label_counts, label_factors, label_seconds
from netpipe.page.wording import ratio, short_count
from netpipe.results.measurement import Interval
from netpipe.results.units import format_seconds

_ROW: Final = 44.0
_AROUND: Final = 56.0
_COLUMNS: Final = 34
_ROOM_AT_RIGHT: Final = 1.06


@dataclass(frozen=True)
class Row:
    """One line of the drawing.

    Attributes:
        label: What it is of.
        interval: In seconds, or a factor.
        ink: Its colour.
        marker: matplotlib's, so that colours are not all that tells rows apart.
    """

    label: str
    interval: Interval
    ink: Ink = Ink.DEVICE
    marker: str = "o"


@dataclass(frozen=True)
class Line:
    """A value that all rows are to be seen beside."""

    value: float
    label: str


def durations(rows: Sequence[Row], line: Line | None = None) -> str:
    """Draw durations from 0 on; at least one row."""
    ends = [end for row in rows for end in (row.interval.median, row.interval.high)]
    most = max(finite([*ends, line.value if line else 0.0])) or 1.0

    def draw(figure: Figure) -> None:
        axes = _axes(figure, rows, line)
        axes.set_xlim(0, most * _ROOM_AT_RIGHT)
        label_seconds(axes)
        _rows(axes, rows, [format_seconds(row.interval.median) for row in rows])

    return drawn(draw, _height(rows, line))


def amounts(rows: Sequence[Row]) -> str:
    """Draw counts a second from 0 on; at least one row."""
    ends = finite([end for row in rows for end in (row.interval.median, row.interval.high)])

    def draw(figure: Figure) -> None:
        axes = _axes(figure, rows, None)
        axes.set_xlim(0, max(ends) * _ROOM_AT_RIGHT)
        label_counts(axes)
        _rows(axes, rows, [short_count(row.interval.median) for row in rows])

    return drawn(draw, _height(rows, None))


def factors(rows: Sequence[Row], line: Line) -> str:
    """Draw factors above 0 by halves and doubles, about a line at 1; at least one row."""
    ends = [
        end for row in rows for end in (row.interval.low, row.interval.median, row.interval.high)
    ]
    above = [end for end in finite(ends) if end > 0]

    def draw(figure: Figure) -> None:
        axes = _axes(figure, rows, line)
        label_factors(axes, min(above, default=1.0), max(above, default=1.0))
        _rows(axes, rows, [f"{ratio(row.interval.median)} x" for row in rows])

    return drawn(draw, _height(rows, line))


def _height(rows: Sequence[Row], line: Line | None) -> float:
    return _ROW * len(rows) + (_AROUND if line else _AROUND - 20)


def _axes(figure: Figure, rows: Sequence[Row], line: Line | None) -> Axes:
    axes = axes_in(figure, left=16, top=24 if line else 4, right=24, bottom=30)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    rule_at_ticks(axes)
    if line is not None:
        axes.axvline(line.value, color=Ink.TEXT, linewidth=1.6, zorder=1.5)
        axes.annotate(
            line.label, (line.value, 1), xycoords=("data", "axes fraction"), xytext=(0, 5),
            textcoords="offset points", color=Ink.TEXT, fontsize=SMALL, ha="center",
        )  # fmt: skip
    return axes


def _rows(axes: Axes, rows: Sequence[Row], values: Sequence[str]) -> None:
    least, most = axes.get_xlim()
    for number, (row, value) in enumerate(zip(rows, values, strict=True)):
        interval = row.interval
        low = interval.low if isfinite(interval.low) else least
        high = interval.high if isfinite(interval.high) else most
        y = number + 0.22
        axes.plot((max(low, least), high), (y, y), color=row.ink, linewidth=5, alpha=0.4)
        axes.plot(interval.median, y, row.marker, color=row.ink, markersize=11, clip_on=False)
        behind = {"facecolor": Ink.PAPER, "edgecolor": "none", "pad": 1}  # the lines of the axes
        place: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "bbox": behind}
        write(axes, 0, number - 0.2, shorten_middle(row.label, _COLUMNS), **place)
        write(axes, 1, number - 0.2, value, fontweight="bold", ha="right", **place)
