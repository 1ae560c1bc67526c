"""The output of a session's process, of which the beginning and the end are kept."""

import os
from typing import BinaryIO, Final

_MAX_BYTES: Final = 1 << 20
_MAX_KEPT_BYTES: Final = 1 << 14  # of the beginning, and of the end
_FIRST_LINES: Final = 5
_LAST_LINES: Final = 25


class SessionLog:
    """What a process appends to a file, which is opened with "a+b"."""

    def __init__(self, stream: BinaryIO) -> None:
        self._file = stream.fileno()
        self._end = b""
        self._cut_bytes = 0

    def cut(self) -> None:
        """Shorten a file that is too long; the process goes on after the beginning."""
        size = os.fstat(self._file).st_size
        if size > _MAX_BYTES:
            self._end = self._read_end()
            os.ftruncate(self._file, _MAX_KEPT_BYTES)
            self._cut_bytes += size - _MAX_KEPT_BYTES

    def _read_end(self) -> bytes:
        size = os.fstat(self._file).st_size
        start = max(size - _MAX_KEPT_BYTES, _MAX_KEPT_BYTES if self._cut_bytes else 0)
        return (self._end + os.pread(self._file, _MAX_KEPT_BYTES, start))[-_MAX_KEPT_BYTES:]

    def shown_lines(self) -> list[str]:
        """Return the last lines; of a long log the first ones too, and how much is left out."""
        last = self._read_end().splitlines(keepends=True)[-_LAST_LINES:]
        total = os.fstat(self._file).st_size + self._cut_bytes
        if total > _MAX_BYTES:
            first = os.pread(self._file, _MAX_KEPT_BYTES, 0).splitlines(keepends=True)
            first = first[:_FIRST_LINES]
            left_out = total - sum(map(len, (*first, *last)))
            last = [*first, f"\n[{left_out:,} bytes left out]\n".encode(), *last]
        return b"".join(last).decode(errors="replace").splitlines()
