"""MaxText's parquet pipeline before AI-Hypercomputer/maxtext#2785, rebuilt from Grain's parts.

With several epochs, the files were repeated before they were interleaved, all at once, so that the
first epoch mixed the elements of all epochs (#2543).
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest

from netpipe.jobs.targets import Factories
from netpipe.judge.reading import Reading, ReadRequest
from netpipe.judge.reading_job import read_loader
from netpipe.judge.same_data import compare_data
from netpipe.results.fields import parse

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FILES, ROWS, BATCH = 4, 40, 8


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Return the paths of parquet files with numbered rows."""
    paths = [str(tmp_path / f"{number}.parquet") for number in range(FILES)]
    for number, path in enumerate(paths):
        rows = np.arange(number * ROWS, (number + 1) * ROWS)
        pq.write_table(pa.table({"id": rows}), path)
    return paths


def batches(files: list[str], epochs: int, *, at_once: int = 0) -> Any:
    """Return the batches of some epochs; files are read `at_once`, by default all of them."""
    repeated = grain.MapDataset.source(files).shuffle(seed=1).repeat(epochs)
    rows = repeated.map(grain.experimental.ParquetIterDataset)
    mixed = grain.experimental.InterleaveIterDataset(rows, cycle_length=at_once or len(rows))
    return grain.experimental.WindowShuffleIterDataset(mixed, window_size=20, seed=1).batch(BATCH)


def read(loader: Callable[[], Any], tmp_path: Path) -> Reading:
    """Read the batches of one epoch."""
    request = ReadRequest(
        batches=FILES * ROWS // BATCH, has_variants=False, result=str(tmp_path / "result")
    )
    return parse(read_loader(request, Factories(loader), ExitStack())["read"], Reading, "test")


def test_the_first_of_several_epochs_repeats_elements(files: list[str], tmp_path: Path) -> None:
    """The judge sees it in the first batches, and accepts the pipeline that was fixed."""
    once = read(lambda: batches(files, 1), tmp_path)
    data = compare_data(read(lambda: batches(files, 10), tmp_path), once)
    assert data.outcome == "DIFFERENT"
    assert "again" in data.reason
    several = read(lambda: batches(files, 10, at_once=FILES), tmp_path)
    assert sorted(several.passes["the first batches"].elements) == sorted(once.epoch)
