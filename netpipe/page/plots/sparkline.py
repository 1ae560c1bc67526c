"""The history of a metric over a device's baselines, and its value in this run."""

from collections.abc import Sequence
from typing import Final

from matplotlib.figure import Figure

from netpipe.page.content import Tone
from netpipe.page.plots.canvas import Ink, add_axes, render_svg

_WIDTH, _HEIGHT = 132.0, 34.0
_INKS: Final = {Tone.GOOD: Ink.GOOD, Tone.BAD: Ink.BAD}
_MARKERS: Final = {Tone.GOOD: "o", Tone.BAD: "X"}
# As a fraction of the largest value; on a smaller range noise would look like a change.
_MIN_RANGE: Final = 0.2


def draw_sparkline(before: Sequence[float], now: float, tone: Tone) -> str:
    """Draw the baselines' values, the oldest first, and behind them this run's value."""
    values = [*before, now]
    middle = (min(values) + max(values)) / 2
    half = max(max(values) - min(values), _MIN_RANGE * max(values)) / 2 or 1.0

    def draw(figure: Figure) -> None:
        axes = add_axes(figure, left=6, top=7, right=9, bottom=7)
        axes.set_axis_off()
        axes.set_ylim(middle - half, middle + half)
        axes.axhline(before[-1], color=Ink.RULE, linewidth=1)
        axes.plot(values, color=Ink.FAINT, linewidth=1.2)
        axes.plot(before, "o", color=Ink.FAINT, markersize=4, clip_on=False)
        axes.plot(len(before), now, _MARKERS.get(tone, "D"), color=_INKS.get(tone, Ink.TEXT),
                  markersize=9, clip_on=False)  # fmt: skip

    return render_svg(draw, _HEIGHT, _WIDTH)
