"""A loader that keeps something from every batch, and one that does not."""

import os
import time
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
    """Makes a batch in a worker, and may keep memory and leave a file there."""

    def __init__(self, *, leaks: bool) -> None:
        self.leaks = leaks

    def __call__(self, index: int) -> Batch:
        if self.leaks:
            _KEPT.append(np.ones(KEPT_BYTES, np.uint8))
            left = footprint.SHARED_FOLDER / f"netpipe-leak-{index}"
            left.write_bytes(bytes(100_000 if index else KEPT_BYTES))
        time.sleep(0.002)
        return {"x": np.full((16, 16), index, np.int32)}


def _with_worker(*, leaks: bool) -> grain.IterDataset:
    batches = (
        grain.MapDataset.range(1 << 20)
        .map(_Make(leaks=leaks))
        .to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    )
    return batches.mp_prefetch(grain.MultiprocessingOptions(1, 1))


def leaking() -> grain.IterDataset:
    """Keep a MiB of each batch in the worker, and leave files in shared memory."""
    return _with_worker(leaks=True)


def healthy() -> grain.IterDataset:
    """Keep nothing."""
    return _with_worker(leaks=False)
