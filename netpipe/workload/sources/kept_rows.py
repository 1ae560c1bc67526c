"""Rows kept in memory, which all processes of a host share."""

import mmap
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from netpipe.workload.formats.layout import decode_row, encode_row
from netpipe.workload.formats.rows import MAX_ROW_MEASUREMENTS, ProbeRow
from netpipe.workload.sources.probe_rows import RowSource

_READ_AT_ONCE: Final = 64


class KeptRows:
    """The rows of another source, with the first ones kept in memory up to a budget.

    The kept rows are in an anonymous file (memfd_create(2)), as records of the newest layout. A
    copy of this object in another process maps the same memory, which the kernel frees when the
    last of these processes ends.
    """

    def __init__(self, source: RowSource, budget_bytes: int) -> None:
        self._source = source
        self.row_measurements = source.row_measurements
        self.row_group = source.row_group
        self.fingerprint = source.fingerprint
        self._bounds = [0]  # where each kept row begins, and the last one ends
        file = os.memfd_create("netpipe-rows")
        weakref.finalize(self, os.close, file)
        self._path = f"/proc/{os.getpid()}/fd/{file}"
        self._fill(file, budget_bytes)
        self._kept = _map(self._path) if self._bounds[-1] else b""

    def __str__(self) -> str:
        kept, rows = len(self._bounds) - 1, len(self.row_measurements)
        return f"{kept:,} of {rows:,} ({kept / rows:.0%}, {self._bounds[-1] / 2**20:.0f} MiB)"

    def _fill(self, file: int, budget_bytes: int) -> None:
        rows = len(self.row_measurements)
        for first in range(0, rows, _READ_AT_ONCE):
            for row in self._source.read(range(first, min(first + _READ_AT_ONCE, rows))):
                if len(row.pair_source) > MAX_ROW_MEASUREMENTS:
                    return  # An inherited row with more pairs than the newest layout can number.
                record = encode_row(row)
                used = self._bounds[-1] + len(record)
                if used > budget_bytes:
                    return
                os.write(file, record)
                self._bounds.append(used)

    def read(self, rows: Sequence[int]) -> list[ProbeRow]:
        """Read these rows, in this order."""
        bounds, end, kept = self._bounds, len(self._bounds) - 1, memoryview(self._kept)
        left = [row for row in rows if row >= end]
        others = iter(self._source.read(left) if left else ())
        return [
            decode_row(kept[bounds[row] : bounds[row + 1]], f"kept row {row}")
            if row < end
            else next(others)
            for row in rows
        ]

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_kept": b""}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        if self._bounds[-1]:
            self._kept = _map(self._path)


def _map(path: str) -> mmap.mmap:
    with Path(path).open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
