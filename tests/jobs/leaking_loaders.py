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
    """Makes a batch in a worker, and may keep a MiB there."""

    def __init__(self, *, leaks: bool) -> None:
        self.leaks = leaks

    def __call__(self, index: int) -> Batch:
        if self.leaks:
            _KEPT.append(np.ones(KEPT_BYTES, np.uint8))
        time.sleep(0.002)
        return {"x": np.full((16, 16), index, np.int32)}


def _with_worker(*, leaks: bool) -> grain.IterDataset:
    batches = (
        grain.MapDataset.range(1 << 20)
        .map(_Make(leaks=leaks))
        .to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    )
    return batches.mp_prefetch(grain.MultiprocessingOptions(1, 1))


def leaking_worker() -> grain.IterDataset:
    """Keep a MiB of each batch in the worker."""
    return _with_worker(leaks=True)


def healthy() -> grain.IterDataset:
    """Keep nothing."""
    return _with_worker(leaks=False)


def leaving_files() -> Iterator[Batch]:
    """Leave a file of a MiB in shared memory, and one of 100 kB for each batch.

    No worker is closed, which takes too long on a busy machine for a look at what is left.
    """
    for index in count():
        left = footprint.SHARED_FOLDER / f"netpipe-leak-{index}"
        left.write_bytes(bytes(100_000 if index else KEPT_BYTES))
        yield _Make(leaks=False)(index)
