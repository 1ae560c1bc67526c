"""Stages whose cost is bytes: read from the disk, copied in memory, sent between processes."""

import atexit
import os
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import grain
import numpy as np

from netpipe.files.temporary_folders import temporary_folder
from perf_tests.studies.faults.parts.batches import ROWS, Array, Batch, collate, row
from perf_tests.studies.faults.parts.grain_loaders import IN_MAIN_THREAD

_MB: Final = 1_000_000
_PIECE_BYTES: Final = 1 << 20
_BATCHES_OF_FILE: Final = 8
_ROWS_IN_ALL: Final = 100_000_000
_ON_DISK: Final = "/var/tmp"  # /tmp may be in memory


_folders: Final = ExitStack()
atexit.register(_folders.close)


@cache
def file_of_noise(size_bytes: int) -> Path:
    """Write a file to the disk; it is removed when this process ends."""
    path = _folders.enter_context(temporary_folder("faults", Path(_ON_DISK))) / "rows"
    noise = np.random.default_rng(0).bytes(min(size_bytes, _PIECE_BYTES))
    with path.open("wb") as stream:
        for start in range(0, size_bytes, len(noise)):
            stream.write(noise[: size_bytes - start])
        stream.flush()
        # Pages that were never written cannot be dropped from the page cache.
        os.fsync(stream.fileno())
    return path


@dataclass(frozen=True)
class DiskRows:
    """A source of rows in a file that the page cache never holds.

    Attributes:
        path: The file.
        row_bytes: Bytes read per row.
    """

    path: Path
    row_bytes: int

    def __len__(self) -> int:
        return _ROWS_IN_ALL

    def __getitem__(self, number: int) -> Array:
        piece = _room(_PIECE_BYTES).data
        with self.path.open("rb", buffering=0) as stream:
            # The whole file, because the kernel has read ahead.
            os.posix_fadvise(stream.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            stream.seek(number % (_BATCHES_OF_FILE * ROWS) * self.row_bytes)
            for left in range(self.row_bytes, 0, -_PIECE_BYTES):
                stream.readinto(piece[:left])
        return row(number)


@cache
def _array(size_bytes: int) -> Array:
    return np.ones(size_bytes, np.uint8)


@cache
def _room(size_bytes: int) -> Array:
    return np.empty(size_bytes, np.uint8)


@dataclass(frozen=True)
class Copying:
    """A transform that copies `row_bytes` per row, far more than the CPU caches hold."""

    row_bytes: int

    def __call__(self, element: Array) -> Array:
        """Copy, and return the row unchanged."""
        np.copyto(_room(self.row_bytes), _array(self.row_bytes))
        return element


@dataclass(frozen=True)
class WideBatch:
    """A batch function whose large batches cost nothing to make."""

    size_bytes: int

    def __call__(self, rows: Sequence[Array]) -> Batch:
        """Stack the rows, and add the same features each time."""
        return {**collate(rows), "features": _array(self.size_bytes)}


def reading_from_disk(mb_per_batch: float) -> grain.IterDataset:
    """Return a pipeline whose source reads `mb_per_batch` from the disk every time."""
    row_bytes = int(mb_per_batch * _MB / ROWS)
    path = file_of_noise(_BATCHES_OF_FILE * ROWS * row_bytes)
    return _batched(grain.MapDataset.source(DiskRows(path, row_bytes)))


def copying_in_memory(mb_per_batch: float) -> grain.IterDataset:
    """Return a pipeline whose map copies `mb_per_batch` in memory."""
    return _batched(_rows().map(Copying(int(mb_per_batch * _MB / ROWS))))


def sending(mb_per_batch: float) -> grain.IterDataset:
    """Return a pipeline whose one worker sends prebuilt batches of `mb_per_batch`."""
    wide = _rows().batch(ROWS, batch_fn=WideBatch(int(mb_per_batch * _MB)))
    return wide.to_iter_dataset(IN_MAIN_THREAD).mp_prefetch(
        grain.MultiprocessingOptions(num_workers=1, per_worker_buffer_size=1)
    )


def _rows() -> grain.MapDataset:
    return grain.MapDataset.range(_ROWS_IN_ALL).map(row)


def _batched(rows: grain.MapDataset) -> grain.IterDataset:
    return rows.batch(ROWS, batch_fn=collate).to_iter_dataset(IN_MAIN_THREAD)
