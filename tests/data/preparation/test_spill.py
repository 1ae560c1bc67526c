"""Measurements on their way to rows."""

from pathlib import Path

import numpy as np

from netpipe.data.formats.rows import MEASUREMENT
from netpipe.data.preparation.prepare import Spill


def test_buckets_share_the_measurements(tmp_path: Path) -> None:
    """Many probes fill the 64 buckets alike, so that memory holds a small part at a time."""
    measurements = np.zeros(64_000, MEASUREMENT)
    measurements["probe"] = np.repeat(np.arange(6400), 10)
    spill = Spill(tmp_path)
    spill.add(measurements[::-1])
    sizes = [file.stat().st_size for file in tmp_path.iterdir()]
    assert len(sizes) == 64
    assert max(sizes) < 2 * measurements.nbytes / 64
    histories = list(spill.histories())
    assert sorted(int(history["probe"][0]) for history in histories) == list(range(6400))
    assert {len(history) for history in histories} == {10}
