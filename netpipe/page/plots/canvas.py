"""What all drawings share: sizes, text, axes, and colours that a style sheet decides on.

A drawing has no colours of its own: each colour of `Ink` stands for a CSS variable that replaces
it on the page, so that one drawing serves light and dark pages.
"""

import io
import warnings
from collections.abc import Callable, Mapping
from enum import StrEnum
from math import ceil, floor, log2
from typing import Any, Final

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from netpipe.results.units import format_seconds

# Sizes are in px; this is nearly the width of a phone.
WIDTH: Final = 440.0
FONT_SIZE: Final = 14.0
SMALL: Final = 12.5
_MAX_TICKS: Final = 5
# In its SVG files matplotlib takes a px for a point.
_PX_PER_INCH: Final = 72.0
_SETTINGS: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "netpipe",
    "text.parse_math": False,
    "axes.formatter.use_mathtext": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": FONT_SIZE,
    "hatch.linewidth": 1.6,
    "figure.dpi": _PX_PER_INCH,
}
_NO_METADATA: Final = dict.fromkeys(("Date", "Creator", "Format", "Type"))


class Ink(StrEnum):
    """The colours in matplotlib's output, each a placeholder for a CSS variable."""

    TEXT = "#010101"
    FAINT = "#010102"
    RULE = "#010103"
    PAPER = "#010104"
    LOAD = "#010105"
    DEVICE = "#010106"
    IDLE = "#010107"
    GOOD = "#010108"
    BAD = "#010109"
    PALE = "#01010a"

    @property
    def variable(self) -> str:
        """The CSS variable that replaces it."""
        return f"--{self.name.lower()}"


def render_svg(draw: Callable[[Figure], None], height: float, width: float = WIDTH) -> str:
    """Return the SVG of what a function draws into a figure; the same drawing, the same bytes."""
    stream = io.StringIO()
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        # The reader's browser has the glyphs that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph")
        figure = Figure(figsize=(width / _PX_PER_INCH, height / _PX_PER_INCH))
        draw(figure)
        figure.savefig(stream, format="svg", metadata=_NO_METADATA, transparent=True)
    return stream.getvalue()


def add_axes(figure: Figure, left: float, top: float, right: float, bottom: float) -> Axes:
    """Add axes with these margins in px, without frame and ticks."""
    width, height = figure.get_size_inches() * _PX_PER_INCH
    place = (left / width, bottom / height, 1 - (left + right) / width, 1 - (top + bottom) / height)
    axes = figure.add_axes(place)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, colors=Ink.FAINT, labelsize=SMALL, pad=5)
    axes.set_yticks([])
    return axes


def draw_grid(axes: Axes) -> None:
    """Draw thin vertical lines at the ticks, behind everything else."""
    axes.grid(axis="x", color=Ink.RULE, linewidth=1)
    axes.set_axisbelow(True)


def label_values(axes: Axes, write: Callable[[float], str] = format_seconds) -> None:
    """Give the x axis a few round ticks, each with its unit."""
    axes.xaxis.set_major_locator(MaxNLocator(_MAX_TICKS, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: write(value)))


def label_factors(axes: Axes, low: float, high: float) -> None:
    """Give the x axis powers of two from about `low` to `high`, both above 0; 1 is among them."""
    first, last = floor(log2(min(low, 0.8))), ceil(log2(max(high, 1.25)))
    every = max(1, ceil((last - first) / _MAX_TICKS))
    powers = [power for power in range(first, last + 1) if power % every == 0]
    axes.set_xscale("log", base=2)
    axes.set_xlim(2.0**first, 2.0**last)
    axes.xaxis.set_major_locator(FixedLocator([2.0**power for power in powers]))
    axes.xaxis.set_minor_locator(FixedLocator([]))
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:g} x" if value >= 1 else f"1/{1 / value:g} x")
    )


def write_text(
    axes: Axes, x: float, y: float, text: str, ink: Ink = Ink.TEXT, **style: Any
) -> None:
    """Write text at a place in units of the data; `style` takes matplotlib's settings."""
    defaults: dict[str, Any] = {"fontsize": SMALL, "va": "center", "clip_on": False}
    axes.text(x, y, text, color=ink, **defaults | style)


def add_legend(figure: Figure, entries: Mapping[str, dict[str, Any]], **place: Any) -> None:
    """Add a legend in one row: for each label the style of its patch."""
    figure.legend(
        [Rectangle((0, 0), 1, 1, **style) for style in entries.values()], list(entries),
        ncols=len(entries), frameon=False, fontsize=12, handlelength=1.1, handleheight=1.0,
        handletextpad=0.45, columnspacing=0.9, borderpad=0.2, labelcolor=Ink.TEXT, **place,
    )  # fmt: skip
