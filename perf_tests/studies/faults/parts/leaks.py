"""Batch transforms that keep memory or shared memory, or free it."""

from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from typing import TypeAlias

import numpy as np

from perf_tests.studies.faults.parts.batches import Array, Batch

Change: TypeAlias = Callable[[int, Batch], Batch]
"""A change of a batch, which gets its number."""

# Memory that a process never frees.
_kept: list[Array] = []


@dataclass(frozen=True)
class Keeping:
    """Keeps memory for each batch.

    Attributes:
        until: Number of the first batch for which nothing is kept; None: always keep.
        every: Keep memory for one batch in `every`: the last worker's, with `every` workers.
    """

    kept_bytes: int
    until: int | None = None
    every: int = 1

    def __call__(self, number: int, batch: Batch) -> Batch:
        """Return the batch as it is."""
        is_over = self.until is not None and number >= self.until
        if not is_over and number % self.every == self.every - 1:
            _kept.append(_fill(self.kept_bytes))
        return batch


@dataclass(frozen=True)
class Freeing:
    """Allocates memory and frees it at once."""

    used_bytes: int

    def __call__(self, _: int, batch: Batch) -> Batch:
        """Return the batch as it is."""
        _fill(self.used_bytes)
        return batch


@dataclass(frozen=True)
class SharingMemory:
    """Makes a file in /dev/shm for each batch, and may remove it."""

    shared_bytes: int
    removes: bool = False

    def __call__(self, _: int, batch: Batch) -> Batch:
        """Return the batch as it is."""
        shared = share(self.shared_bytes)
        if self.removes:
            shared.unlink()
        return batch


def share(size_bytes: int) -> SharedMemory:
    """Make a file in /dev/shm that no process keeps mapped.

    Python's resource tracker removes it once all processes of the session have ended.
    """
    shared = SharedMemory(create=True, size=size_bytes)
    np.ndarray(size_bytes, np.uint8, shared.buf).fill(1)
    shared.close()
    return shared


def _fill(size_bytes: int) -> Array:
    return np.ones(size_bytes, np.uint8)
