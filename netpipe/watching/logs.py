"""Reads the logs of watched processes, which may be growing."""

import time
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from socket import gethostname
from typing import Final

import psutil

from netpipe.errors import InputError
from netpipe.files.text_files import parse_json, quote
from netpipe.results.documents import check_document, check_schema
from netpipe.results.fields import parse
from netpipe.watching.processes import merge
from netpipe.watching.window import SCHEMA, Window

_MAX_LINE_BYTES: Final = 1 << 16
_TAIL_BYTES: Final = 1 << 16
_KEPT_WINDOWS: Final = 60
_RECENT_WINDOWS: Final = 1.5
_ANY_VERSION: Final = SCHEMA.partition("/")[0]
_CONSTRAINT: Final = "be a log of netpipe.watch"
_WAY_OUT: Final = (
    "netpipe.watch(batches, log=FILE) writes a line when a window ends: the first after 10 s, "
    "unless window_s says otherwise"
)


class Log:
    """The log of one process, read as it grows.

    Args:
        path: The file.
        tail_bytes: Read only this much of the present end of the file; None for the whole file.
    """

    def __init__(self, path: Path, tail_bytes: int | None = None) -> None:
        if not path.is_file():
            found = "something else" if path.exists() else "none"
            raise InputError(path, "file", _CONSTRAINT, found, _WAY_OUT)
        self.path = path
        self._at = 0 if tail_bytes is None else max(0, path.stat().st_size - tail_bytes)
        # The line at this place may have begun before it.
        self._is_within = self._at > 0
        self._first_damaged: bytes | None = None
        self._process: tuple[str, int] | None = None
        self._earlier = set[tuple[str, int]]()

    def read(self) -> Iterator[Window]:
        """Yield the windows that were written since the last call.

        A line without an end stays for the next call. Lines that a full disk or a kill has cut are
        left out.

        Raises:
            InputError: The file is not a log of netpipe.watch, or a newer netpipe wrote it.
        """
        try:
            opened = self.path.open("rb")
        except FileNotFoundError:  # It was removed; another run may write it again.
            self._at, self._process, self._first_damaged = 0, None, None
            return
        except OSError as error:
            raise InputError(self.path, "file", "be readable", error.strerror) from error
        with opened as file:
            if file.seek(0, 2) < self._at:  # another run has replaced the file
                self._at, self._process, self._first_damaged = 0, None, None
            file.seek(self._at)
            while (line := file.readline(_MAX_LINE_BYTES)).endswith(b"\n"):
                self._at += len(line)
                if not self._is_within and (window := self._parse(line)):
                    self._refuse_another_process(window)
                    yield window
                self._is_within = False
        if len(line) == _MAX_LINE_BYTES or not (self._process or self._first_damaged is None):
            start = quote((self._first_damaged or line)[:40])
            raise InputError(self.path, "file", _CONSTRAINT, start, _WAY_OUT)

    def _refuse_another_process(self, window: Window) -> None:
        """Raise an InputError if a process goes on after another one wrote to this log."""
        before, self._process = self._process, (window.host, window.pid)
        if before in (None, self._process):
            return
        self._earlier.add(before)
        if self._process in self._earlier and window.batches_before:
            found = f"{window.pid} on {window.host} after {before[1]} on {before[0]}"
            way_out = "Give each process a log of its own, in one folder"
            raise InputError(self.path, "pid", "be that of one process", found, way_out)

    def _parse(self, line: bytes) -> Window | None:
        # A run that continues in the log of a killed run completes the line that was cut.
        text = line[max(0, line.rfind(b'{"schema"')) :]
        with suppress(ValueError, RecursionError):
            document = parse_json(text.decode())
            found = document.get("schema") if isinstance(document, dict) else None
            if str(found).startswith(_ANY_VERSION):
                check_schema(found, (SCHEMA,), self.path)
                check_document(document, "training.1", self.path)
                del document["schema"]
                return parse(document, Window, self.path)
        self._first_damaged = self._first_damaged or line
        return None


class Logs:
    """The latest windows of one or more processes, read as their logs grow.

    Args:
        path: The log of one process, or a folder with the `*.jsonl` files of several.

    Attributes:
        windows: The latest windows of each process, oldest first, by the name of its file.

    Raises:
        InputError: No log holds a window.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._logs: dict[Path, Log | None] = {}
        self.windows: dict[str, deque[Window]] = {}
        self.read()
        if not self.windows:
            raise InputError(path, "log", "hold a window", "none yet", _WAY_OUT)

    def read(self) -> list[tuple[str, Window]]:
        """Return the windows that were written since the last call, with their processes."""
        if not self._path.is_dir():
            return list(self._read_log(self._path))
        found: list[tuple[str, Window]] = []
        for path in sorted(self._path.glob("*.jsonl")):
            try:
                found += self._read_log(path)
            except InputError as error:
                self._logs[path] = None
                reason = str(error).removesuffix(f". {_WAY_OUT}")
                warnings.warn(f"left out: {reason}", stacklevel=1)
        return found

    def find_ended(self) -> set[str]:
        """Return the processes that ran on this host and have ended."""
        return {name for name, windows in self.windows.items() if _has_ended(windows[-1])}

    def _read_log(self, path: Path) -> Iterator[tuple[str, Window]]:
        if path not in self._logs:
            self._logs[path] = Log(path, _TAIL_BYTES)
        log = self._logs[path]
        for window in list(log.read()) if log else ():
            self.windows.setdefault(path.stem, deque(maxlen=_KEPT_WINDOWS)).append(window)
            yield path.stem, window


def is_log(path: Path) -> bool:
    """Return whether a file begins like a log, of this or another version."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return f'"schema": "{_ANY_VERSION}/'.encode() in file.readline(_MAX_LINE_BYTES)


def read_merged(path: Path, least: int) -> list[Window]:
    """Return the windows of a whole log; of a long log, at least `least`, each merged of several.

    Raises:
        InputError: The file is not a log of netpipe.watch that holds a window.
    """
    windows, merged, size = Log(path).read(), list[Window](), 1
    while taken := list(islice(windows, size)):
        merged.append(merge(taken))
        if len(merged) == 2 * least:
            merged, size = [*map(merge, zip(merged[::2], merged[1::2], strict=True))], 2 * size
    if not merged:
        raise InputError(path, "log", "hold a window", "none yet", _WAY_OUT)
    return merged


def _has_ended(latest: Window) -> bool:
    # A container may have this host's name and process ids of its own, so recent lines count too.
    is_recent = time.time() < latest.ended_s + _RECENT_WINDOWS * latest.figures.seconds
    if is_recent or latest.host != gethostname():
        return False
    try:
        process = psutil.Process(latest.pid)
        is_same = process.create_time() <= latest.ended_s
        return not is_same or process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True
