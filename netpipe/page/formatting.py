"""Figures and texts in the form that a page shows them in."""

import re
from collections.abc import Callable
from math import isfinite
from typing import Final

from netpipe.results.measurement import Interval
from netpipe.results.units import format_number, format_seconds

_BYTES: Final = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_MODULES: Final = re.compile(r"\b(?:[^\W\d]\w*\.)+(?=[^\W\d])")


def format_ratio(value: float) -> str:
    """Format a ratio: `0.88`, `20.1`."""
    return f"{value:.2f}" if abs(value) < 10 else format_number(value)


def format_size(count: float) -> str:
    """Format a number of bytes: `48 KiB`."""
    for scale, unit in _BYTES:
        if count >= scale:
            return f"{format_number(count / scale)} {unit}"
    return f"{count:.0f} bytes"


def strip_modules(text: str) -> str:
    """Remove the modules of functions: `Map of mine.input.tokenize` is `Map of tokenize`."""
    return _MODULES.sub("", text)


def capitalize(text: str) -> str:
    """Capitalize the first letter and leave all others as they are."""
    return text[:1].upper() + text[1:]


def format_bounds(interval: Interval, write: Callable[[float], str] = format_seconds) -> str:
    """Format the ends of an interval: `35.9 ms to 36.8 ms`, or `35.9 ms or more`."""
    if isfinite(interval.low) and isfinite(interval.high):
        return f"{write(interval.low)} to {write(interval.high)}"
    if isfinite(interval.low):
        return f"{write(interval.low)} or more"
    if isfinite(interval.high):
        return f"{write(interval.high)} or less"
    return "too few rounds to bound it"


def describe_interval(
    interval: Interval, write: Callable[[float], str] = format_seconds
) -> tuple[str, str]:
    """Format the median of an interval, and its ends."""
    return write(interval.median), format_bounds(interval, write)
