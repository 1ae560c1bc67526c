"""Writing files completely or not at all."""

from contextlib import suppress
from errno import EISDIR
from os import strerror
from pathlib import Path
from tempfile import TemporaryFile

from netpipe.errors import InputError


def refuse_unwritable(path: Path, option: str) -> None:
    """Refuse a file that cannot be written, before there is a result to lose.

    Raises:
        InputError: The file, which an option named, cannot be written.
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
    """Replace a file once the new content, text as UTF-8, is completely written.

    Raises:
        InputError: The file, which an option named, cannot be written.
    """
    part = _part_of(path)
    try:
        part.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise InputError(path, option, "be writable", error.strerror) from error


def _part_of(path: Path) -> Path:
    return path.parent / f"{path.name}.part"


def writable_folder(path: Path, option: str) -> Path:
    """Return the absolute path of a writable folder, which is made if it is missing.

    Raises:
        InputError: The folder, which an option named, is not writable, or cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=path):
            return path.absolute()
    except OSError as error:
        constraint = "be a folder that can be written to"
        raise InputError(path, option, constraint, error.strerror) from error
