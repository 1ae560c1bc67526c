"""Drawings of medians with intervals, of stage times, and of the history of a metric."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil, floor, isfinite, log2
from typing import Any, Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netpipe.diagnosis.diagnosis import Stage
from netpipe.history.entries import Series
from netpipe.reporting.picture.visible_graph import shorten_middle
from netpipe.reporting.plots.canvas import (
    MAX_TICKS,
    SMALL,
    Ink,
    add_axes,
    add_legend,
    as_svg,
    label_values,
    write_text,
)
from netpipe.reporting.tables import format_ratio, strip_modules
from netpipe.results.measurement import Interval
from netpipe.results.units import format_seconds

_MAX_LABEL_COLUMNS: Final = 34
_MAX_STAGE_COLUMNS: Final = 26
_CPU_BAR: Final[dict[str, Any]] = {"facecolor": "none", "edgecolor": Ink.TEXT, "hatch": "/////"}
# As a fraction of the largest value. In a smaller range, noise would look like a change.
_MIN_HISTORY_RANGE: Final = 0.2


@dataclass(frozen=True)
class Row:
    """A labelled interval; the matplotlib `marker` tells rows apart without colours."""

    label: str
    interval: Interval
    ink: Ink = Ink.DEVICE
    marker: str = "o"


def rate_factor(label: str, factor: Interval) -> Row:
    """Return the row of a factor, marked good (●) if at least 1 and bad (✖) if below 1."""
    return Row(label, factor, *((Ink.GOOD, "o") if factor.median >= 1 else (Ink.BAD, "X")))


@as_svg
def draw_amounts(
    figure: Figure,
    rows: Sequence[Row],
    step_s: float | None = None,
    write: Callable[[float], str] = format_seconds,
) -> None:
    """Draw one or more amounts on an axis from 0, with a line at the time of a step, if given."""
    axes = _add_axes(figure, rows, None if step_s is None else (step_s, "a step"))
    axes.set_xlim(0, 1.06 * max(step_s or 0.0, *_finite_ends(rows)) or 1.0)
    label_values(axes, write)
    _draw_rows(axes, rows, write)


@as_svg
def draw_factors(figure: Figure, rows: Sequence[Row], label: str) -> None:
    """Draw one or more factors on a logarithmic axis, with a labelled line at 1."""
    axes = _add_axes(figure, rows, (1.0, label))
    ends = [end for end in _finite_ends(rows) if end > 0] or [1.0]
    # The ticks are powers of two, and 1 is among them.
    first, last = floor(log2(min(*ends, 0.8))), ceil(log2(max(*ends, 1.25)))
    step = max(1, ceil((last - first) / MAX_TICKS))
    powers = [power for power in range(first, last + 1) if power % step == 0]
    axes.set_xscale("log", base=2)
    axes.set_xlim(2.0**first, 2.0**last)
    labels = [f"{2**power} x" if power >= 0 else f"1/{2**-power} x" for power in powers]
    axes.set_xticks([2.0**power for power in powers], labels)
    axes.minorticks_off()
    _draw_rows(axes, rows, lambda value: f"{format_ratio(value)} x")


def _finite_ends(rows: Sequence[Row]) -> list[float]:
    intervals = [row.interval for row in rows]
    ends = (end for each in intervals for end in (each.low, each.median, each.high))
    return list(filter(isfinite, ends))


def _add_axes(figure: Figure, rows: Sequence[Row], line: tuple[float, str] | None) -> Axes:
    top, bottom = (24 if line else 4), 30
    height = top + 44 * len(rows) + bottom
    axes = add_axes(figure, left=16, top=top, right=24, bottom=bottom, height=height)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    if line:
        value, label = line
        axes.axvline(value, color=Ink.TEXT, linewidth=1.6, zorder=1.5)
        axes.annotate(
            label, (value, 1), xycoords=("data", "axes fraction"), xytext=(0, 5),
            textcoords="offset points", color=Ink.TEXT, fontsize=SMALL, ha="center",
        )  # fmt: skip
    return axes


def _draw_rows(axes: Axes, rows: Sequence[Row], write: Callable[[float], str]) -> None:
    start, end = axes.get_xlim()
    # A background in the page's colour hides the grid behind the text.
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


@as_svg
def draw_stage_bars(figure: Figure, stages: Sequence[Stage], bottleneck: str | None) -> None:
    """Draw two bars for each of one or more stages; a colour and a sign mark the bottleneck."""
    axes = add_axes(figure, left=16, top=30, right=24, bottom=34, height=66 + 52 * len(stages))
    axes.set_xlim(0, max(max(stage.s_per_batch, stage.cpu_s_per_batch) for stage in stages) or 1.0)
    axes.set_ylim(len(stages) - 0.5, -0.5)
    label_values(axes)
    for index, stage in enumerate(stages):
        _draw_stage(axes, index, stage, is_bottleneck=stage.name == bottleneck)
    legend = {"wall time": {"facecolor": Ink.PALE}, "CPU time": _CPU_BAR}
    add_legend(figure, legend, loc="upper left")


def _draw_stage(axes: Axes, y: int, stage: Stage, *, is_bottleneck: bool) -> None:
    ink, sign, weight = (Ink.LOAD, "▶ ", "bold") if is_bottleneck else (Ink.PALE, "", "normal")
    axes.barh(y + 0.1, stage.s_per_batch, height=0.24, color=ink)
    axes.barh(y + 0.32, stage.cpu_s_per_batch, height=0.14, linewidth=0.8, **_CPU_BAR)
    name = shorten_middle(strip_modules(stage.name), _MAX_STAGE_COLUMNS)
    value = f"{format_seconds(stage.s_per_batch)}, {stage.fraction:.0%}"
    style: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "fontweight": weight}
    write_text(axes, 0, y - 0.2, f"{sign}{name}", **style)
    write_text(axes, 1, y - 0.2, value, ha="right", **style)


@as_svg
def draw_history(figure: Figure, series: Series) -> None:
    """Draw a metric over commits, the oldest first, with a line for each level."""
    axes = add_axes(figure, left=16, top=28, right=24, bottom=8, height=158)
    values, write = series.values, series.format
    middle = (min(values) + max(values)) / 2
    half = max(max(values) - min(values), _MIN_HISTORY_RANGE * abs(max(values))) / 1.8 or 1.0
    axes.set_ylim(middle - half, middle + half)
    axes.set_xlim(-0.5, len(values) - 0.5)
    axes.set_xticks([])
    axes.plot(values, "o", color=Ink.DEVICE, markersize=5, alpha=0.6, clip_on=False)
    for level in dict.fromkeys(chain.from_iterable(series.changes)):
        ends = (level.begin - 0.5, level.end - 0.5)
        axes.plot(ends, (level.value, level.value), color=Ink.TEXT, linewidth=2)
    title = f"{write(min(values))} to {write(max(values))}; last {write(values[-1])}"
    axes.set_title(title, loc="left", fontsize=SMALL, fontweight="bold", color=Ink.TEXT, pad=8)
