"""Medians with their intervals, one below the other, beside a line for comparison."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netpipe.linting.picture.visible_graph import shorten_middle
from netpipe.page.formatting import format_ratio
from netpipe.page.plots.canvas import (
    SMALL,
    Ink,
    add_axes,
    draw_grid,
    label_factors,
    label_values,
    render_svg,
    write_text,
)
from netpipe.results.measurement import Interval
from netpipe.results.units import format_seconds

_ROW_HEIGHT: Final = 44.0
_MARGINS: Final = 34.0
_LINE_LABEL_HEIGHT: Final = 20.0
_MAX_LABEL_COLUMNS: Final = 34


@dataclass(frozen=True)
class Row:
    """One row of the drawing.

    Attributes:
        label: What the interval is of.
        interval: Amounts of one unit, or factors.
        ink: The colour.
        marker: matplotlib's marker, which tells rows apart without colours.
    """

    label: str
    interval: Interval
    ink: Ink = Ink.DEVICE
    marker: str = "o"

    @property
    def ends(self) -> list[float]:
        """The low end, the median and the high end, as far as they are finite."""
        interval = self.interval
        return [end for end in (interval.low, interval.median, interval.high) if isfinite(end)]


@dataclass(frozen=True)
class Line:
    """A value to compare all rows with."""

    value: float
    label: str


def draw_amounts(
    rows: Sequence[Row], line: Line | None = None, write: Callable[[float], str] = format_seconds
) -> str:
    """Draw amounts on an axis from 0; at least one row. `write` formats an amount."""
    ends = [line.value if line else 0.0, *(end for row in rows for end in row.ends)]

    def draw(figure: Figure) -> None:
        axes = _add_axes(figure, rows, line)
        axes.set_xlim(0, 1.06 * max(ends) or 1.0)
        label_values(axes, write)
        _draw_rows(axes, rows, write)

    return render_svg(draw, _height(rows, line))


def draw_factors(rows: Sequence[Row], line: Line) -> str:
    """Draw factors on a logarithmic axis, about a line at 1; at least one row."""
    ends = [end for row in rows for end in row.ends if end > 0]

    def draw(figure: Figure) -> None:
        axes = _add_axes(figure, rows, line)
        label_factors(axes, min(ends, default=1.0), max(ends, default=1.0))
        _draw_rows(axes, rows, lambda value: f"{format_ratio(value)} x")

    return render_svg(draw, _height(rows, line))


def _height(rows: Sequence[Row], line: Line | None) -> float:
    return _ROW_HEIGHT * len(rows) + _MARGINS + (_LINE_LABEL_HEIGHT if line else 0)


def _add_axes(figure: Figure, rows: Sequence[Row], line: Line | None) -> Axes:
    axes = add_axes(figure, 16, 4 + (_LINE_LABEL_HEIGHT if line else 0), 24, 30)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    draw_grid(axes)
    if line is not None:
        axes.axvline(line.value, color=Ink.TEXT, linewidth=1.6, zorder=1.5)
        axes.annotate(
            line.label, (line.value, 1), xycoords=("data", "axes fraction"), xytext=(0, 5),
            textcoords="offset points", color=Ink.TEXT, fontsize=SMALL, ha="center",
        )  # fmt: skip
    return axes


def _draw_rows(axes: Axes, rows: Sequence[Row], write: Callable[[float], str]) -> None:
    start, end = axes.get_xlim()
    # A background of the page's colour hides the grid behind the text.
    background = {"facecolor": Ink.PAPER, "edgecolor": "none", "pad": 1}
    style: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "bbox": background}
    for index, row in enumerate(rows):
        interval, y = row.interval, index + 0.22
        low = max(start, interval.low) if isfinite(interval.low) else start
        high = interval.high if isfinite(interval.high) else end
        axes.plot((low, high), (y, y), color=row.ink, linewidth=5, alpha=0.4)
        axes.plot(interval.median, y, row.marker, color=row.ink, markersize=11, clip_on=False)
        label, value = shorten_middle(row.label, _MAX_LABEL_COLUMNS), write(interval.median)
        write_text(axes, 0, index - 0.2, label, **style)
        write_text(axes, 1, index - 0.2, value, fontweight="bold", ha="right", **style)
