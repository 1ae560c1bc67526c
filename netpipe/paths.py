"""Words that may be paths."""

import os
from pathlib import Path


def exists(path: Path | str) -> bool:
    """Return whether a word names a file or a folder; `Path.exists` raises for a long word."""
    return os.path.exists(path)  # noqa: PTH110
