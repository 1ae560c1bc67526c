"""How long steps take, and how long they wait for a batch: all of them, not only the median."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from netpipe.page.plots.canvas import SMALL, Ink, axes_in, drawn, rule_at_ticks, write
from netpipe.page.plots.scales import label_seconds
from netpipe.results.units import format_seconds

_HEIGHT: Final = 292.0
_PANEL: Final = 96.0
_BINS: Final = 30
_SHOWN_PERCENTILE: Final = 99  # the last one may be a hundred times as far away


def draw_distributions(train_step_s: Sequence[float], wait_s: Sequence[float]) -> str:
    """Draw both over one axis of time.

    Args:
        train_step_s: Percentiles 0 to 100 of the time from one step's end to the next one's.
        wait_s: The same of the time that the loop waited for a batch.
    """
    end_s = 1.12 * max(train_step_s[_SHOWN_PERCENTILE], wait_s[_SHOWN_PERCENTILE]) or 1.0

    def draw(figure: Figure) -> None:
        upper = axes_in(figure, left=16, top=28, right=24, bottom=_HEIGHT - 28 - _PANEL)
        lower = axes_in(figure, left=16, top=_HEIGHT - 34 - _PANEL, right=24, bottom=34)
        _panel(upper, train_step_s, end_s, Ink.DEVICE, "Step, end to end")
        _panel(lower, wait_s, end_s, Ink.LOAD, "Wait for a batch")
        upper.set_xticklabels([])

    return drawn(draw, _HEIGHT)


def write_caption(train_step_s: Sequence[float], wait_s: Sequence[float], steps: int) -> str:
    """Say what is to be seen."""
    return (
        f"{steps:,} real steps. Half take {format_seconds(train_step_s[50])} or less, the "
        f"slowest in a "
        f"hundred {format_seconds(train_step_s[99])} or more, the slowest of all "
        f"{format_seconds(train_step_s[100])}. Half wait {format_seconds(wait_s[50])} or less "
        f"for their batch, "
        f"the longest wait is {format_seconds(wait_s[100])}."
    )


def _panel(axes: Axes, percentiles: Sequence[float], end_s: float, ink: Ink, name: str) -> None:
    edges = [end_s * one / _BINS for one in range(_BINS + 1)]
    shares = [_share(percentiles, *bin_) for bin_ in pairwise(edges)]
    axes.bar(edges[:-1], shares, width=end_s / _BINS, align="edge", color=ink,
             edgecolor=Ink.PAPER, linewidth=0.8)  # fmt: skip
    axes.set_xlim(0, end_s)
    axes.set_ylim(0, 1.28 * max(shares))
    label_seconds(axes)
    rule_at_ticks(axes)
    axes.axhline(0, color=Ink.FAINT, linewidth=1)
    median_s = percentiles[50]
    axes.plot((median_s, median_s), (0, 1.12 * max(shares)), color=Ink.TEXT, linewidth=1.4)
    is_left = median_s > end_s / 2
    write(axes, median_s, 1.2 * max(shares), f"median {format_seconds(median_s)}",
          ha="right" if is_left else "left")  # fmt: skip
    axes.set_title(f"{name}; tallest bar {max(shares):.0%} of the steps", loc="left",
                   fontsize=SMALL, fontweight="bold", color=Ink.TEXT, pad=8)  # fmt: skip


def _share(percentiles: Sequence[float], low: float, high: float) -> float:
    """Return the share of the steps from `low` on and below `high`."""
    return sum(low <= one < high for one in percentiles) / len(percentiles)
