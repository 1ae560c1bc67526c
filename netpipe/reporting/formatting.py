"""Formats text for a page."""

import re
from typing import Final

_MODULES: Final = re.compile(r"\b(?:[^\W\d]\w*\.)+(?=[^\W\d])")


def strip_modules(text: str) -> str:
    """Remove the modules of functions: `Map of mine.input.tokenize` becomes `Map of tokenize`."""
    return _MODULES.sub("", text)


def capitalize(text: str) -> str:
    """Capitalize the first letter and leave the rest unchanged."""
    return text[:1].upper() + text[1:]
