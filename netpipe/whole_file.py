"""Writing files whole or not at all."""

from contextlib import suppress
from errno import EISDIR
from os import strerror
from pathlib import Path
from tempfile import TemporaryFile

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


def write_whole(path: Path, content: str | bytes, option: str) -> None:
    """Write a file; what was there before stays until all is written.

    Args:
        path: The file.
        content: What it is to hold; text is encoded as UTF-8.
        option: Where the user chose the file, for the error.

    Raises:
        InputError: The file cannot be written.
    """
    encoded = content.encode("utf-8") if isinstance(content, str) else content
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


def writable_folder(path: Path, option: str) -> Path:
    """Return the whole path of a folder that files can be written to; it is made where missing.

    Args:
        path: The folder.
        option: Where the user chose it, for the error.

    Raises:
        InputError: It is not, or cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path):
            return path.absolute()
    except OSError as error:
        constraint = "be a folder that can be written to"
        raise InputError(path, option, constraint, error.strerror) from error
