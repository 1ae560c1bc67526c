"""How long steps take and wait for their batch: the distribution of all steps."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netpipe.page.plots.canvas import (
    SMALL,
    Ink,
    add_axes,
    draw_grid,
    label_values,
    render_svg,
    write_text,
)
from netpipe.results.units import format_seconds

_HEIGHT: Final = 292.0
_PANEL_HEIGHT: Final = 96.0
_BINS: Final = 30
# The last percentile may be a hundred times as far away.
_MAX_DRAWN_PERCENTILE: Final = 99


def draw_distributions(train_step_s: Sequence[float], wait_s: Sequence[float]) -> str:
    """Draw both distributions over one axis of time.

    Args:
        train_step_s: Percentiles 0 to 100 of the time from one step's end to the next one's.
        wait_s: Percentiles 0 to 100 of the time that the loop waits for a batch.
    """
    end_s = 1.12 * max(times[_MAX_DRAWN_PERCENTILE] for times in (train_step_s, wait_s)) or 1.0

    def draw(figure: Figure) -> None:
        upper = add_axes(figure, left=16, top=28, right=24, bottom=_HEIGHT - 28 - _PANEL_HEIGHT)
        lower = add_axes(figure, left=16, top=_HEIGHT - 34 - _PANEL_HEIGHT, right=24, bottom=34)
        _draw_panel(upper, train_step_s, end_s, Ink.DEVICE, "Step, end to end")
        _draw_panel(lower, wait_s, end_s, Ink.LOAD, "Wait for a batch")
        upper.set_xticklabels([])

    return render_svg(draw, _HEIGHT)


def write_caption(train_step_s: Sequence[float], wait_s: Sequence[float], steps: int) -> str:
    """Describe both distributions by their medians and extremes."""
    step, wait = (list(map(format_seconds, times)) for times in (train_step_s, wait_s))
    return (
        f"{steps:,} real steps. Half take {step[50]} or less, the slowest in a hundred {step[99]} "
        f"or more, the slowest of all {step[100]}. Half wait {wait[50]} or less for their batch; "
        f"the longest wait is {wait[100]}."
    )


def _draw_panel(
    axes: Axes, percentiles: Sequence[float], end_s: float, ink: Ink, name: str
) -> None:
    edges = [end_s * index / _BINS for index in range(_BINS + 1)]
    shares = [
        sum(low <= time_s < high for time_s in percentiles) / len(percentiles)
        for low, high in pairwise(edges)
    ]
    axes.bar(edges[:-1], shares, width=end_s / _BINS, align="edge", color=ink,
             edgecolor=Ink.PAPER, linewidth=0.8)  # fmt: skip
    axes.set_xlim(0, end_s)
    axes.set_ylim(0, 1.28 * max(shares))
    label_values(axes)
    draw_grid(axes)
    axes.axhline(0, color=Ink.FAINT, linewidth=1)
    _mark_median(axes, percentiles[50], 1.2 * max(shares), end_s)
    axes.set_title(f"{name}; tallest bar {max(shares):.0%} of the steps", loc="left",
                   fontsize=SMALL, fontweight="bold", color=Ink.TEXT, pad=8)  # fmt: skip


def _mark_median(axes: Axes, median_s: float, height: float, end_s: float) -> None:
    axes.plot((median_s, median_s), (0, 0.93 * height), color=Ink.TEXT, linewidth=1.4)
    align = "right" if median_s > end_s / 2 else "left"
    write_text(axes, median_s, height, f"median {format_seconds(median_s)}", ha=align)
