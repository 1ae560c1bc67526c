"""What all drawings share: their size, their letters, and colours that a style sheet decides on.

A drawing has no colours of its own: it is drawn in those of `Ink`, each of which stands for a CSS
variable that takes its place, so that one drawing serves light and dark pages.
"""

import io
import warnings
from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH: Final = 440.0  # of a phone, nearly; px, as all sizes here
FONT_SIZE: Final = 14.0
SMALL: Final = 12.5
_PX_PER_INCH: Final = 72.0  # what matplotlib's SVG takes a point for
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
_NOTHING: Final = dict.fromkeys(("Date", "Creator", "Format", "Type"))


class Ink(StrEnum):
    """Colours, as they are drawn."""

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
        """The CSS variable that takes its place."""
        return f"--{self.name.lower()}"


def drawn(draw: Callable[[Figure], None], height: float, width: float = WIDTH) -> str:
    """Return the SVG of what a function draws into a figure of a size in px.

    The same drawing gives the same bytes.
    """
    stream = io.StringIO()
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        # The reader's browser has the letters that matplotlib's own font lacks.
        warnings.filterwarnings("ignore", message="Glyph")
        figure = Figure(figsize=(width / _PX_PER_INCH, height / _PX_PER_INCH))
        draw(figure)
        figure.savefig(stream, format="svg", metadata=_NOTHING, transparent=True)
    return stream.getvalue()


def axes_in(figure: Figure, left: float, top: float, right: float, bottom: float) -> Axes:
    """Return axes with so many px around them, without frame and ticks."""
    width, height = figure.get_size_inches() * _PX_PER_INCH
    place = (left / width, bottom / height, 1 - (left + right) / width, 1 - (top + bottom) / height)
    axes = figure.add_axes(place)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, colors=Ink.FAINT, labelsize=SMALL, pad=5)
    axes.set_yticks([])
    return axes


def rule_at_ticks(axes: Axes) -> None:
    """Draw thin lines up from the ticks, behind everything."""
    axes.grid(axis="x", color=Ink.RULE, linewidth=1)
    axes.set_axisbelow(True)


def write(axes: Axes, x: float, y: float, text: str, ink: Ink = Ink.TEXT, **looks: Any) -> None:
    """Write a text at a place in the units of the data; `looks` are matplotlib's."""
    usual: dict[str, Any] = {"fontsize": SMALL, "va": "center", "clip_on": False}
    axes.text(x, y, text, color=ink, **usual | looks)
