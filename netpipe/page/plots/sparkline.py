"""A figure over the baselines of a device, and where it stands now."""

from collections.abc import Sequence
from typing import Final

from matplotlib.figure import Figure

from netpipe.page.content import Tone
from netpipe.page.plots.canvas import Ink, axes_in, drawn

_SIZE: Final = (132.0, 34.0)
_INKS: Final = {Tone.GOOD: Ink.GOOD, Tone.BAD: Ink.BAD}
_LEAST_RANGE: Final = 0.2  # of the largest value, or noise would look like a change
_MARKERS: Final = {Tone.GOOD: "o", Tone.BAD: "X"}


def sparkline(before: Sequence[float], now: float, tone: Tone) -> str:
    """Draw what the baselines hold, the oldest first, and behind them the value of now."""
    width, height = _SIZE

    def draw(figure: Figure) -> None:
        axes = axes_in(figure, left=6, top=7, right=9, bottom=7)
        axes.set_axis_off()
        axes.set_ylim(*_limits([*before, now]))
        axes.axhline(before[-1], color=Ink.RULE, linewidth=1)
        axes.plot([*before, now], color=Ink.FAINT, linewidth=1.2)
        axes.plot(before, "o", color=Ink.FAINT, markersize=4, clip_on=False)
        axes.plot(len(before), now, _MARKERS.get(tone, "D"), color=_INKS.get(tone, Ink.TEXT),
                  markersize=9, clip_on=False)  # fmt: skip

    return drawn(draw, height, width)


def _limits(values: Sequence[float]) -> tuple[float, float]:
    middle = (min(values) + max(values)) / 2
    half = max(max(values) - min(values), _LEAST_RANGE * max(values)) / 2 or 1.0
    return middle - half, middle + half
