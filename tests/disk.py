"""Disks that take no file: a full one, and one that is read only. They stop root too."""

import errno
import os
import tempfile
from pathlib import Path
from typing import Any

import pytest


def fill(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let the kernel say that there is no space when a temporary file below it is written."""
    make = tempfile.mkstemp

    def made(**asked: Any) -> tuple[int, str]:
        descriptor, path = make(**asked)
        if Path(path).is_relative_to(folder):
            full = os.open("/dev/full", os.O_WRONLY)
            os.dup2(full, descriptor)
            os.close(full)
        return descriptor, path

    monkeypatch.setattr(tempfile, "mkstemp", made)


def make_read_only(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let no file be made below a folder: the modes of a folder would not stop root."""
    opened = os.open

    def refusing(path: Any, flags: int, *mode: int, **at: Any) -> int:
        if flags & os.O_CREAT and Path(os.fspath(path)).is_relative_to(folder):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)
        return opened(path, flags, *mode, **at)

    monkeypatch.setattr(os, "open", refusing)


def use_temporary_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let a folder be the system's for temporary files."""
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
