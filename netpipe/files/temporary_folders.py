"""Temporary folders, which a later run removes if their process was killed.

A process locks its folders; the kernel releases the locks when the process dies.
"""

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

# The suffix distinguishes temporary folders from the user's own folders.
_SUFFIX: Final = ".tmp"
OWN_NAME: Final = re.compile(r"\.?netpipe-[a-z]+-[a-z0-9_]{8}\.tmp")
"""Matches the name of every temporary folder."""

_locks: set[int] = set()  # descriptors of folders that this process has locked


@contextmanager
def temporary_folder(purpose: str, beside: Path | None = None) -> Iterator[Path]:
    """Yield a new folder that only this user can read, and remove it at the end.

    The folder is made in the system's temporary folder, or hidden in the folder `beside`. Folders
    of killed processes are removed first. The purpose, in lower-case letters, is part of the name.

    Raises:
        OSError: The folder cannot be made.
    """
    parent = beside or Path(tempfile.gettempdir())
    prefix = f"{'.' if beside else ''}netpipe-{purpose}-"
    owner = os.getpid()
    remove_abandoned(parent)
    with ExitStack() as stack:
        folder = _make_locked(parent, prefix, stack)
        try:
            yield folder
        finally:
            if os.getpid() == owner:  # A forked child leaves this block too.
                shutil.rmtree(folder, ignore_errors=True)


def _make_locked(parent: Path, prefix: str, stack: ExitStack) -> Path:
    while True:
        folder = Path(tempfile.mkdtemp(_SUFFIX, prefix, parent))
        # Another process may remove the folder as abandoned before it is locked.
        with suppress(FileNotFoundError):
            stack.enter_context(locked(folder))
            if folder.exists():
                return folder


def remove_abandoned(parent: Path) -> None:
    """Remove this user's temporary folders in `parent` whose process has died.

    On a file system without locks, every folder counts as in use.
    """
    with suppress(OSError):
        # In a folder with many files, making a Path for each takes three times as long.
        for name in filter(OWN_NAME.fullmatch, os.listdir(parent)):  # noqa: PTH208
            folder = parent / name
            with suppress(OSError), locked(folder, waits=False) as is_locked:
                if is_locked and folder.stat().st_uid == os.geteuid():
                    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def locked(folder: Path, *, waits: bool = True) -> Iterator[bool | None]:
    """Lock a folder; yield whether that succeeded, or None if the file system has no locks.

    If another process holds the lock, the call waits, or yields False with `waits=False`.

    Raises:
        OSError: The folder does not exist, is a link, or cannot be read.
    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    _locks.add(descriptor)
    try:
        is_locked: bool | None = True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
        except OSError as error:
            is_locked = False if isinstance(error, BlockingIOError) else None
        yield is_locked
    finally:
        if descriptor in _locks:
            _locks.remove(descriptor)
            os.close(descriptor)


def release_locks() -> None:
    """Release every lock of this process, which was forked or is about to end without cleanup."""
    while _locks:
        with suppress(OSError):
            os.close(_locks.pop())


# A forked child would otherwise keep its parent's locks after the parent has died.
os.register_at_fork(after_in_child=release_locks)
