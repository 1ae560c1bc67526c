"""Formats figures and text for a page."""

import re
from typing import Final

from netpipe.results.units import format_number

_BYTES: Final = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))
_MODULES: Final = re.compile(r"\b(?:[^\W\d]\w*\.)+(?=[^\W\d])")


def format_size(count: float) -> str:
    """Format a number of bytes, as in `48 KiB`."""
    for scale, unit in _BYTES:
        if count >= scale:
            return f"{format_number(count / scale)} {unit}"
    return f"{count:.0f} bytes"


def strip_modules(text: str) -> str:
    """Remove the modules of functions: `Map of mine.input.tokenize` becomes `Map of tokenize`."""
    return _MODULES.sub("", text)


def capitalize(text: str) -> str:
    """Capitalize the first letter and leave the rest unchanged."""
    return text[:1].upper() + text[1:]
