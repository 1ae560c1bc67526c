"""Figures in the words and the brackets of a page."""

import re
from collections.abc import Callable
from math import isfinite
from typing import Final

from netpipe.results.measurement import Interval
from netpipe.results.units import format_number, format_seconds

_BYTES: Final = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))

_MODULES: Final = re.compile(r"\b(?:[^\W\d]\w*\.)+(?=[^\W\d])")
_COUNTS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def ratio(value: float) -> str:
    """Write a ratio: `0.88`, `20.1`."""
    return f"{value:.2f}" if abs(value) < 10 else format_number(value)


def whole_percent(fraction: float) -> str:
    """Write a fraction as a whole percentage: `71%`."""
    return f"{100 * fraction:.0f}%"


def size(count: float) -> str:
    """Write a number of bytes: `48 KiB`."""
    if count < _BYTES[-1][0]:
        return f"{count:.0f} bytes"
    scale, unit = next(one for one in _BYTES if count >= one[0])
    return f"{format_number(count / scale)} {unit}"


def short_count(value: float) -> str:
    """Write a large number in short: `20.9 M`."""
    short = float(format_number(value))  # first, or 999,900 would become 1000 k
    scale, unit = next((one for one in _COUNTS if short >= one[0]), (1, ""))
    return f"{format_number(short / scale)} {unit}".rstrip()


def without_modules(text: str) -> str:
    """Leave out where functions come from: `Map of mine.input.tokenize` is `Map of tokenize`."""
    return _MODULES.sub("", text)


def sentence(text: str) -> str:
    """Begin a text with a capital letter."""
    return text[:1].upper() + text[1:]


def bounds(interval: Interval, write: Callable[[float], str] = format_seconds) -> str:
    """Write the ends of an interval: `35.9 ms to 36.8 ms`; what is not bounded is said."""
    if not (isfinite(interval.low) or isfinite(interval.high)):
        return "too few rounds to bound it"
    if not isfinite(interval.high):
        return f"{write(interval.low)} or more"
    if not isfinite(interval.low):
        return f"{write(interval.high)} or less"
    return f"{write(interval.low)} to {write(interval.high)}"
