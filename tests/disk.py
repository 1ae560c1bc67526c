"""Full and read-only disks, which also stop root."""

import errno
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def fill(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make writing a new file below a folder fail for lack of space."""
    opened = os.open

    def made(path: Any, flags: int, *mode: int) -> int:
        descriptor = opened(path, flags, *mode)
        full = opened("/dev/full", os.O_WRONLY)
        os.dup2(full, descriptor)
        os.close(full)
        return descriptor

    _when_made_below(monkeypatch, folder, made)


def make_read_only(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make a folder read-only; its mode alone would not stop root."""
    mkdir = os.mkdir

    def refuse(path: Any, *_: int) -> int:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    def mkdir_(path: Any, *mode: int) -> None:
        if Path(os.fspath(path)).is_relative_to(folder):
            refuse(path)
        mkdir(path, *mode)

    _when_made_below(monkeypatch, folder, refuse)
    monkeypatch.setattr(os, "mkdir", mkdir_)


def _when_made_below(
    monkeypatch: pytest.MonkeyPatch, folder: Path, make: Callable[..., int]
) -> None:
    opened = os.open

    def open_(path: Any, flags: int, *mode: int, **at: Any) -> int:
        if flags & os.O_CREAT and Path(os.fspath(path)).is_relative_to(folder):
            return make(path, flags, *mode)
        return opened(path, flags, *mode, **at)

    monkeypatch.setattr(os, "open", open_)


def use_temporary_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Use a folder for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(folder))


def note_syncs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the name of each file and folder that is synced to the disk."""
    names: list[str] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        names.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    return names
