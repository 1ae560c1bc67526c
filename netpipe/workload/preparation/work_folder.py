"""The folder that keeps the work of an interrupted preparation for the next run.

Each output has one such hidden folder, by default beside a local output. It belongs to the process
that holds its lock, and its key depends on the sources and the settings.
"""

import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Final

from netpipe.errors import InputError
from netpipe.files.temporary_folders import locked
from netpipe.workload.formats.places import Place
from netpipe.workload.preparation.tasks import is_invalid_input

WORK_NAME: Final = re.compile(r"\.netpipe-work-[0-9a-f]{16}")
"""Matches the name of every work folder."""

_KEY: Final = "key"


def find_scratch(out: Place) -> Path:
    """Return the parent of the work folder, which is on the file system of a local output."""
    if not out.is_local:
        return Path(tempfile.gettempdir())
    path = Path(os.path.realpath(out.path))
    # An earlier run, which made the output, may have worked beside it.
    has_worked_beside = os.access(path.parent / _name_folder(out), os.W_OK)
    return path if path.is_dir() and not has_worked_beside else path.parent


def _name_folder(out: Place) -> str:
    identity = os.path.realpath(out.path) if out.is_local else out.name
    return f".netpipe-work-{blake2b(identity.encode(), digest_size=8).hexdigest()}"


@contextmanager
def work_folder(scratch: Path, out: Place, key: str, *, is_kept: bool) -> Iterator[Place]:
    """Yield the work folder of an output.

    The folder is removed after the block, and after invalid input, since other input has another
    key. After any other error, the next run finds its work if `is_kept`.

    Raises:
        InputError: Another process is preparing this output, or the folder cannot be made.
    """
    folder = scratch / _name_folder(out)
    missing = [parent for parent in folder.parents if not parent.exists()]
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with locked(folder, waits=False) as is_locked:
            if is_locked is False:
                way_out = f"Wait for it, or end it. Its work folder is {folder}"
                raise InputError(out, "output", "be prepared by one process", "another", way_out)
            try:
                _begin(folder, out, key)
                yield Place.local(folder)
            except BaseException as error:
                if not is_kept or is_invalid_input(error) or _is_unused(folder):
                    _remove(folder)
                raise
            _remove(folder)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(out, f"work folder {folder}", "be writable", reason) from error
    finally:
        with suppress(OSError):
            for parent in missing:
                parent.rmdir()


def _is_unused(folder: Path) -> bool:
    # Unlike `iterdir`, this does not raise if the folder is gone.
    return {path.name for path in folder.glob("*")} <= {_KEY}


def _remove(folder: Path) -> None:
    # The key goes first, so that no run uses the rest if this one is killed halfway.
    (folder / _KEY).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _begin(folder: Path, out: Place, key: str) -> None:
    """Remove the files of an earlier run, unless this run can use them."""
    stored = Place.local(folder) / _KEY
    if (found := stored.read()) == key.encode():
        return
    (folder / _KEY).unlink(missing_ok=True)
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    stored.write(key.encode())
    if found is not None:
        text = f"{out}: an interrupted run had other sources or settings; this one starts over"
        warnings.warn(text, stacklevel=2)
