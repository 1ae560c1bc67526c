"""Sizes, text, axes and colours that all drawings share.

A drawing has no fixed colours: on the page, a CSS variable replaces each colour of `Ink`, so that
the same drawing suits light and dark pages.
"""

import io
import warnings
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from netpipe.results.units import format_seconds

# In px, like all sizes here; nearly the width of a phone.
_WIDTH: Final = 440.0
SMALL: Final = 12.5
MAX_TICKS: Final = 5
# In SVG files, matplotlib writes points as px.
_PX_PER_INCH: Final = 72.0
_SETTINGS: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "netpipe",
    "text.parse_math": False,
    "axes.formatter.use_mathtext": False,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 14.0,
    "hatch.linewidth": 1.6,
    "figure.dpi": _PX_PER_INCH,
}
_NO_METADATA: Final = dict.fromkeys(("Date", "Creator", "Format", "Type"))

_Arguments = ParamSpec("_Arguments")


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


def as_svg(draw: Callable[Concatenate[Figure, _Arguments], None]) -> Callable[_Arguments, str]:
    """Make a function that draws into a figure return a byte-for-byte reproducible SVG."""

    @wraps(draw)
    def wrapped(*args: _Arguments.args, **kwargs: _Arguments.kwargs) -> str:
        stream = io.StringIO()
        with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
            # The browser has glyphs that matplotlib's font lacks.
            warnings.filterwarnings("ignore", message="Glyph")
            figure = Figure()
            draw(figure, *args, **kwargs)
            figure.savefig(stream, format="svg", metadata=_NO_METADATA, transparent=True)
        return stream.getvalue()

    return wrapped


def add_axes(
    figure: Figure, left: float, top: float, right: float, bottom: float, *, height: float
) -> Axes:
    """Set a figure's size, and add axes with margins and a grid but no frame; all sizes in px."""
    figure.set_size_inches(_WIDTH / _PX_PER_INCH, height / _PX_PER_INCH)
    box = (left / _WIDTH, bottom / height, 1 - (left + right) / _WIDTH, 1 - (top + bottom) / height)
    axes = figure.add_axes(box)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, colors=Ink.FAINT, labelsize=SMALL, pad=5)
    axes.set_yticks([])
    axes.grid(axis="x", color=Ink.RULE, linewidth=1)
    axes.set_axisbelow(True)
    return axes


def label_values(axes: Axes, write: Callable[[float], str] = format_seconds) -> None:
    """Give the x axis a few round ticks, each with its unit."""
    axes.locator_params(axis="x", nbins=MAX_TICKS, steps=[1, 2, 5, 10])
    axes.xaxis.set_major_formatter(lambda value, _: write(value))


def write_text(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    """Write text at a point in data coordinates; `style` is passed on to matplotlib."""
    axes.text(x, y, text, color=Ink.TEXT, fontsize=SMALL, va="center", clip_on=False, **style)


def add_legend(figure: Figure, entries: Mapping[str, dict[str, Any]], **where: Any) -> None:
    """Add a legend in one row; `entries` has the style of the patch for each label."""
    patches = [Rectangle((0, 0), 1, 1, **style) for style in entries.values()]
    figure.legend(
        patches, list(entries), ncols=len(entries), frameon=False, fontsize=12, handlelength=1.1,
        handleheight=1.0, handletextpad=0.45, columnspacing=0.9, borderpad=0.2,
        labelcolor=Ink.TEXT, **where,
    )  # fmt: skip
