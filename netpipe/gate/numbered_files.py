"""Write numbered files: each is complete or absent, and no two share a number."""

import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

from netpipe.files.temporary_folders import locked, temporary_folder
from netpipe.files.whole_file import sync_names, write_new

_NAME: Final = re.compile(r"(?P<number>\d{4}|[1-9]\d{4})_.+\.json")


def read_number(path: Path) -> int:
    """Return the number in a file's name, at least 1; 0 if the name has none."""
    found = _NAME.fullmatch(path.name)
    return int(found["number"]) if found else 0


def write_numbered(folder: Path, name: str, text: str) -> Path:
    """Write `NNNN_<name>.json` with the next number of a folder, which is created if missing.

    Raises:
        OSError: The file cannot be written; no part of it remains in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with temporary_folder("baseline", folder) as building:
        part = building / "part"
        write_new(part, text.encode("utf-8"))
        part.chmod(0o644)
        # Two processes that write different names could otherwise take the same number.
        with locked(folder):
            path = folder / f"{_next_number(folder):04}_{name}.json"
            path.hardlink_to(part)  # Unlike a rename, a link never replaces anything.
    sync_names(folder)
    return path


def _next_number(folder: Path) -> int:
    return max(map(read_number, folder.iterdir()), default=0) + 1


def write_to_temporary(folder: Path, name: str, text: str) -> Path:
    """Write a file to a new temporary folder, under the name for `folder`, and return its path."""
    number = _next_number(folder) if folder.is_dir() else 1
    # Never removed: the user copies the file from here.
    elsewhere = Path(tempfile.mkdtemp(prefix="netpipe-kept-"))
    path = elsewhere / f"{number:04}_{name}.json"
    try:
        path.write_text(text, encoding="utf-8")
    except OSError:
        shutil.rmtree(elsewhere, ignore_errors=True)
        raise
    return path
