"""Numbered files, each written whole or not at all under a number of its own."""

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Final

NUMBERED: Final = re.compile(r"(?P<number>\d{4})_.+\.json")
_CLAIM: Final = re.compile(r"(?P<number>\d{4})\.part")


def write_numbered(folder: Path, name: str, text: str) -> Path:
    """Write `NNNN_<name>.json` under the next number of a folder, which is made when missing.

    Raises:
        OSError: The file cannot be written; nothing of it is left in the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        number = max(_numbers(folder, NUMBERED) | _numbers(folder, _CLAIM), default=0) + 1
        # This file, which only one process can create, claims the number. Without it, two
        # processes that use different names could take the same one.
        part = folder / f"{number:04}.part"
        try:
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            continue
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
                # Another process may have used and released the number before the claim.
                if number in _numbers(folder, NUMBERED):
                    continue
                stream.write(text)
            part.chmod(0o644)
            path = folder / f"{number:04}_{name}.json"
            path.hardlink_to(part)  # Unlike a rename, a link never replaces anything.
            return path
        finally:
            part.unlink()


def _numbers(folder: Path, pattern: re.Pattern[str]) -> set[int]:
    matches = (pattern.fullmatch(path.name) for path in folder.iterdir())
    return {int(match["number"]) for match in matches if match}


def write_to_temporary(folder: Path, name: str, text: str) -> Path:
    """Write a file to a new temporary folder, under the name that it would have had in `folder`.

    Raises:
        OSError: The file cannot be written there either; nothing of it is left.
    """
    number = max(_numbers(folder, NUMBERED), default=0) + 1 if folder.is_dir() else 1
    elsewhere = Path(tempfile.mkdtemp(prefix="netpipe-"))
    path = elsewhere / f"{number:04}_{name}.json"
    try:
        path.write_text(text, encoding="utf-8")
    except OSError:
        shutil.rmtree(elsewhere, ignore_errors=True)
        raise
    return path
