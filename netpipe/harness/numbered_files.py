"""Files with numbers: written whole or not at all, each under a number of its own."""

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

NUMBERED: Final = re.compile(r"(?P<number>\d{4})_.+\.json")


def write_next(folder: Path, name: str, text: str) -> Path:
    """Write `NNNN_<name>.json` under the next number of a folder, which is made when missing.

    Raises:
        OSError: The folder does not take it; then nothing of it is left there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor, part = tempfile.mkstemp(dir=folder, suffix=".part")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        Path(part).chmod(0o644)
        while True:
            path = folder / _file_name(_next_number(folder), name)
            try:
                # Unlike a rename, a link never replaces what another recorder wrote meanwhile.
                path.hardlink_to(part)
            except FileExistsError:
                continue
            return path
    finally:
        Path(part).unlink()


def keep_elsewhere(folder: Path, name: str, text: str) -> Path:
    """Write what a folder did not take to a new folder among the system's temporary ones.

    Returns:
        The file, under the name that it would have had.

    Raises:
        OSError: There is no place there either; then nothing of it is left.
    """
    number = _next_number(folder) if folder.is_dir() else 1
    elsewhere = Path(tempfile.mkdtemp(prefix="netpipe-"))
    path = elsewhere / _file_name(number, name)
    try:
        path.write_text(text, encoding="utf-8")
    except OSError:
        shutil.rmtree(elsewhere, ignore_errors=True)
        raise
    return path


def _file_name(number: int, name: str) -> str:
    return f"{number:04}_{name}.json"


def _next_number(folder: Path) -> int:
    numbers = [
        int(match["number"])
        for path in folder.iterdir()
        if (match := NUMBERED.fullmatch(path.name))
    ]
    return max(numbers, default=0) + 1
