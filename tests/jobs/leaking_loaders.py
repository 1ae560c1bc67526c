"""Loaders that keep something from every batch, and one that does not."""

import os
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import grain
import numpy as np

from netpipe.jobs import footprint

KEPT_BYTES = 1 << 20
OWN_FOLDER = "NETPIPE_TEST_SHARED_FOLDER"
"""The environment variable of a folder that stands in for /dev/shm, which other tests use too."""

footprint.SHARED_FOLDER = Path(os.environ.get(OWN_FOLDER, footprint.SHARED_FOLDER))
_KEPT: list[Any] = []
Batch = dict[str, np.ndarray]


class _Make:
    """Makes a batch in a worker, and may keep some memory there."""

    def __init__(self, kept_bytes: int) -> None:
        self.kept_bytes = kept_bytes

    def __call__(self, index: int) -> Batch:
        if self.kept_bytes:
            _KEPT.append(np.ones(self.kept_bytes, np.uint8))
        time.sleep(0.002)
        return {"x": np.full((16, 16), index, np.int32)}


def _with_worker(kept_bytes: int) -> grain.IterDataset:
    batches = (
        grain.MapDataset.range(1 << 20)
        .map(_Make(kept_bytes))
        .to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    )
    return batches.mp_prefetch(grain.MultiprocessingOptions(1, 1))


def leaking_worker() -> grain.IterDataset:
    """Keep a MiB of each batch in the worker."""
    return _with_worker(KEPT_BYTES)


def healthy() -> grain.IterDataset:
    """Keep nothing."""
    return _with_worker(0)


def leaking_here() -> Iterator[Batch]:
    """Keep a MiB of each batch in the training process."""
    for index in count():
        yield _Make(KEPT_BYTES)(index)


def leaving_files() -> Iterator[Batch]:
    """Leave a file of a MiB in shared memory, and one of 100 kB for each batch."""
    for index in count():
        left = footprint.SHARED_FOLDER / f"netpipe-leak-{index}"
        left.write_bytes(bytes(100_000 if index else KEPT_BYTES))
        yield _Make(0)(index)
