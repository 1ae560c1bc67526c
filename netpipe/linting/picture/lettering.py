"""How much room text takes in a drawing, where no font can be asked."""

from collections.abc import Iterator
from typing import Final

from rich.cells import cell_len, chop_cells

MONOSPACE: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
SANS: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', Arial, sans-serif"

_MONOSPACE_EM: Final = 0.62  # SF Mono; Menlo and DejaVu Sans Mono have 0.602, Consolas 0.55
_WIDE_EM: Final = 1.0

# Advance widths of DejaVu Sans, the widest face of the stack, rounded up.
_GROUPS_EM: Final = {
    0.28: "ijl'",
    0.32: " .,IJ",
    0.36: "f/|:;\\-",
    0.42: "()[]rt!",
    0.56: 'cszkL?_*"`',
    0.62: "aevxyTYF",
    0.64: "bdghnopqu0123456789EPS{}$",
    0.70: "ABCRVXZK",
    0.79: "DGHNOQU&w",
    0.87: "M#+<=>~^",
}
_SANS_EM: Final = {letter: em for em, letters in _GROUPS_EM.items() for letter in letters}


def monospace_width(text: str, size: float) -> float:
    """Estimate the width of a line in the monospace face, in the unit of `size`."""
    return cell_len(text) * _MONOSPACE_EM * size


def monospace_columns(width: float, size: float) -> int:
    """Return how many columns of the monospace face fit into a width."""
    return int(width / (_MONOSPACE_EM * size))


def sans_width(text: str, size: float) -> float:
    """Estimate the width of a line in the proportional face, in the unit of `size`.

    It is an upper bound for Latin text in regular weight; what the table lacks counts a full em.
    """
    return sum(_SANS_EM.get(letter, _WIDE_EM) for letter in text) * size


def wrapped(text: str, width: float, size: float) -> Iterator[str]:
    """Yield the lines of a text in the proportional face; a word longer than a line is cut."""
    line = ""
    for word in _words(text, width, size):
        longer = f"{line} {word}" if line else word
        if line and sans_width(longer, size) > width:
            yield line
            line = word
        else:
            line = longer
    if line:
        yield line


def _words(text: str, width: float, size: float) -> Iterator[str]:
    for word in text.split():
        if sans_width(word, size) <= width:
            yield word
        else:
            yield from chop_cells(word, max(int(width / size / 2), 1))
