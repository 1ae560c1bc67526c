"""Writing files whole or not at all."""

from contextlib import suppress
from errno import EISDIR
from os import strerror
from pathlib import Path

from netpipe.errors import InputError


def refuse_unwritable(path: Path, option: str) -> None:
    """Find out that a file cannot be written before there is anything to lose.

    Args:
        path: The file; it is not touched.
        option: Where the user chose it, for the error.

    Raises:
        InputError: It cannot be written.
    """
    part = _part_of(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(EISDIR, strerror(EISDIR))
        part.touch()
        part.unlink()
    except OSError as error:
        raise InputError(path, option, "be writable", error.strerror) from error


def write_whole(path: Path, text: str, option: str) -> None:
    """Write a text file; what was there before stays until all is written.

    Args:
        path: The file.
        text: What it is to hold.
        option: Where the user chose the file, for the error.

    Raises:
        InputError: The file cannot be written.
    """
    encoded = text.encode("utf-8")
    part = _part_of(path)
    try:
        part.write_bytes(encoded)
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise InputError(path, option, "be writable", error.strerror) from error


def _part_of(path: Path) -> Path:
    return path.parent / f"{path.name}.part"
