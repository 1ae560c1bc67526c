"""Writing files whole or not at all."""

from contextlib import suppress
from pathlib import Path

from netpipe.errors import InputError


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
    part = path.parent / f"{path.name}.part"
    try:
        part.write_bytes(encoded)
        part.replace(path)
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise InputError(path, option, "be writable", error.strerror) from error
