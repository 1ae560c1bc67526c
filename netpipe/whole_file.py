"""Writing files completely or not at all."""

import errno
import os
from contextlib import suppress
from pathlib import Path
from stat import S_IMODE
from typing import Final

from netpipe.errors import InputError
from netpipe.temporary_folders import temporary_folder

# The folder takes no new file, or the target is a mount point.
_CANNOT_REPLACE: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY)


def refuse_unwritable(path: Path | None, option: str) -> None:
    """Raise an InputError, before a result can be lost, for a file that cannot be written."""
    if path is None:
        return
    try:
        target = _find_target(path)
        _require_writable(target)
        if not target.exists():
            with temporary_folder("file", target.parent):
                pass
    except OSError as error:
        raise InputError(path, option, "be writable", error.strerror) from error


def write_whole(path: Path, content: str | bytes, option: str, *, lasts: bool = True) -> None:
    """Replace a file once the new content, text as UTF-8, is completely written.

    A link is followed, and a file keeps its mode. Devices, pipes and open descriptors, and files
    that cannot be replaced, are written directly. Unless `lasts` is false, the content survives a
    loss of power.

    Raises:
        InputError: The file, which an option named, cannot be written.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    try:
        target = _find_target(path)
        _require_writable(target)
        if _is_descriptor(target) or (target.exists() and not target.is_file()):
            _write_directly(target, data)
        else:
            _write_file(target, data, lasts=lasts)
    except OSError as error:
        raise InputError(path, option, "be writable", error.strerror) from error


def _find_target(path: Path) -> Path:
    """Follow links, except those in /proc/self/fd, whose targets may have no path."""
    with suppress(FileNotFoundError):
        path.stat()  # refuses links that lead in a circle
    while path.is_symlink() and not _is_descriptor(path):
        path = path.parent / path.readlink()
    return path


def _is_descriptor(path: Path) -> bool:
    return path.parent.resolve() == Path("/proc/self/fd").resolve()


def _require_writable(target: Path) -> None:
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    # A file of mode 0444 could be replaced, but its owner does not want that.
    if target.exists() and not _is_descriptor(target) and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _write_directly(target: Path, data: bytes) -> None:
    # A file that is open would be written from its start if it were opened again.
    is_open = _is_descriptor(target)
    with os.fdopen(os.dup(int(target.name)), "wb") if is_open else target.open("wb") as stream:
        stream.write(data)


def _write_file(target: Path, data: bytes, *, lasts: bool) -> None:
    try:
        with temporary_folder("file", target.parent) as folder:
            part = folder / "part"
            write_new(part, data, lasts=lasts)
            if target.exists():
                _copy_owner_and_mode(target, part)
            part.replace(target)
    except OSError as error:
        if error.errno not in _CANNOT_REPLACE or not target.exists():
            raise
        _write_directly(target, data)
    if lasts:
        sync_names(target.parent)


def _copy_owner_and_mode(source: Path, target: Path) -> None:
    status = source.stat()
    with suppress(PermissionError):
        os.chown(target, status.st_uid, status.st_gid)
    target.chmod(S_IMODE(status.st_mode))


def write_new(path: Path, data: bytes, *, lasts: bool = True) -> None:
    """Write a file that does not exist yet, by default so that it survives a loss of power.

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
    """Let the names of the files in a folder survive a loss of power, where the system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def writable_folder(path: Path, option: str) -> Path:
    """Make a folder and return its absolute path; raise an InputError if it is not writable."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with temporary_folder("file", path):
            return path.absolute()
    except OSError as error:
        constraint = "be a folder that can be written to"
        raise InputError(path, option, constraint, error.strerror) from error
