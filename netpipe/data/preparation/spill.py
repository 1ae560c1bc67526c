"""Measurements on their way from files in order of time to rows in order of probe, on disk.

They are spread over buckets by a hash of the probe; one bucket at a time is then sorted in memory.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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
        self._probes: set[int] = set()
        self.measurements = 0

    @property
    def probes(self) -> NDArray[np.int64]:
        """The distinct probes seen, int64 (probes,), ascending."""
        return np.array(sorted(self._probes), np.int64)

    def add(self, measurements: MeasurementArray) -> None:
        """Put measurements into their buckets, in their order."""
        bucket = (fold_key(measurements["probe"]) % np.uint64(_BUCKETS)).astype(np.uint8)
        order = np.argsort(bucket, kind="stable")
        ends = np.cumsum(np.bincount(bucket, minlength=_BUCKETS))
        for file, part in zip(self._files, np.split(measurements[order], ends[:-1]), strict=True):
            with file.open("ab") as stream:
                stream.write(part.tobytes())
        self._probes.update(np.unique(measurements["probe"]).tolist())
        self.measurements += len(measurements)

    def histories(self) -> Iterator[MeasurementArray]:
        """Yield every probe's measurements, in time order; equal times keep the order added."""
        for file in self._files:
            yield from split_by_probe(np.fromfile(file, MEASUREMENT))
