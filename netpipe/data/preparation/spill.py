"""Measurements sorted by probe on disk.

They are spread over buckets by a hash of the probe; then one bucket at a time is sorted in memory.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from netpipe.data.formats.measurements import MEASUREMENT, MeasurementArray
from netpipe.data.formats.rows import split_by_probe
from netpipe.data.sampling.counter_rng import fold_key

_BUCKETS = 64


class Spill:
    """Buckets of measurements in a folder.

    Args:
        folder: An empty folder; the caller removes it.
    """

    def __init__(self, folder: Path) -> None:
        self._files = [folder / f"{bucket:02d}" for bucket in range(_BUCKETS)]

    def add(self, measurements: MeasurementArray) -> None:
        """Append measurements to their buckets."""
        bucket = (fold_key(measurements["probe"]) % np.uint64(_BUCKETS)).astype(np.uint8)
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=_BUCKETS))
        for file, part in zip(self._files, np.split(measurements[order], ends[:-1]), strict=True):
            with file.open("ab") as stream:
                stream.write(part.tobytes())

    def histories(self) -> Iterator[MeasurementArray]:
        """Yield each probe's measurements in time order; equal times keep their order."""
        for file in self._files:
            yield from split_by_probe(np.fromfile(file, MEASUREMENT))
