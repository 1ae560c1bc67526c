"""Files with numbers: written whole or not at all, each under a number of its own."""

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
        OSError: The folder does not take it; then nothing of it is left there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    number, descriptor = _claim(folder)
    part = _claim_of(folder, number)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            stream.write(text)
        part.chmod(0o644)
        path = folder / _file_name(number, name)
        path.hardlink_to(part)  # unlike a rename, a link never replaces anything
        return path
    finally:
        part.unlink()


def _claim(folder: Path) -> tuple[int, int]:
    """Claim a number against other recorders, by a file that only one of them can make.

    Names alone would not do: two recorders that call theirs differently both got one number.

    Returns:
        The number, and the descriptor of the file.
    """
    while True:
        number = max(_numbers(folder, NUMBERED) | _numbers(folder, _CLAIM), default=0) + 1
        claim = _claim_of(folder, number)
        try:
            descriptor = os.open(claim, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            continue
        # Another may have used the number and let go of it between the listing and the claim.
        if number not in _numbers(folder, NUMBERED):
            return number, descriptor
        os.close(descriptor)
        claim.unlink()


def _claim_of(folder: Path, number: int) -> Path:
    return folder / f"{number:04}.part"


def _numbers(folder: Path, pattern: re.Pattern[str]) -> set[int]:
    matches = (pattern.fullmatch(path.name) for path in folder.iterdir())
    return {int(match["number"]) for match in matches if match}


def write_to_temporary(folder: Path, name: str, text: str) -> Path:
    """Write what a folder did not take to a new folder among the system's temporary ones.

    Returns:
        The file, under the name that it would have had.

    Raises:
        OSError: There is no place there either; then nothing of it is left.
    """
    number = max(_numbers(folder, NUMBERED), default=0) + 1 if folder.is_dir() else 1
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
