"""Writes files completely or not at all."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from netpipe.errors import InputError
from netpipe.files.temporary_folders import temporary_folder

_STREAMS: Final = {"/dev/stdout": 1, "/dev/stderr": 2}


@contextmanager
def _as_input_error(path: Path, option: str, constraint: str = "be writable") -> Iterator[None]:
    """Turn an OSError into an InputError about the file that an option names."""
    try:
        yield
    except OSError as error:
        raise InputError(path, option, constraint, error.strerror) from error


def refuse_unwritable(path: Path | None, option: str) -> None:
    """Raise an InputError for a file that cannot be written, before there is a result to lose."""
    if path is None or str(path) in _STREAMS:
        return
    with _as_input_error(path, option):
        _require_writable(path)
        if not path.exists():
            with temporary_folder("file", Path(os.path.realpath(path)).parent):
                pass


def write_whole(path: Path, content: str | bytes, option: str, *, lasts: bool = True) -> None:
    """Write content (text as UTF-8); replace the file only once all of the content is written.

    Links are followed, and a file keeps its mode. Devices, pipes and files that cannot be replaced
    are written directly. Unless `lasts` is false, the content survives a power failure.

    Raises:
        InputError: The file that an option names cannot be written.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    with _as_input_error(path, option):
        if str(path) in _STREAMS:
            # Opening the stream by its path would overwrite the start of a redirected file.
            with os.fdopen(os.dup(_STREAMS[str(path)]), "wb") as stream:
                stream.write(data)
            return
        _require_writable(path)
        target = Path(os.path.realpath(path))
        is_fixed = os.path.ismount(target) or not os.access(target.parent, os.W_OK)
        if path.exists() and (is_fixed or not path.is_file()):
            path.write_bytes(data)
            return
        with temporary_folder("file", target.parent) as folder:
            part = folder / "part"
            write_new(part, data, lasts=lasts)
            if target.exists():
                shutil.copymode(target, part)
            part.replace(target)
        if lasts:
            sync_names(target.parent)


def _require_writable(path: Path) -> None:
    with suppress(FileNotFoundError):
        path.stat()  # raises an OSError for circular links
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        # A file of mode 0444 could be replaced, but its owner does not want that.
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def write_new(path: Path, data: bytes, *, lasts: bool = True) -> None:
    """Write a file that does not exist yet; by default, it survives a power failure.

    Raises:
        OSError: The file exists, or cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        if lasts:
            os.fsync(descriptor)


def sync_names(folder: Path) -> None:
    """Make the names in a folder survive a power failure, if the system supports this."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def writable_folder(path: Path, option: str) -> Path:
    """Make a folder and return its absolute path; raise an InputError if it is not writable."""
    with _as_input_error(path, option, "be a folder that can be written to"):
        path.mkdir(parents=True, exist_ok=True)
        with temporary_folder("file", path):
            return path.absolute()
