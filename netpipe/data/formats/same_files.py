"""Files that must stay as they were when the data were opened."""

from collections.abc import Sequence
from pathlib import Path

from netpipe.errors import InputError


class SameFiles:
    """The sizes and times of files, by which a replaced one is recognised."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._states = {path: _state(path) for path in paths}

    def require(self, path: Path) -> None:
        """Refuse a file that is gone or another one now.

        Raises:
            InputError: It is; a training would go on with other data.
        """
        if (found := _state(path)) != self._states[path]:
            constraint = "be the file that was there when the data were opened"
            way_out = "Put it back, or begin a new training"
            raise InputError(path, "file", constraint, "another" if found else "no file", way_out)


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
