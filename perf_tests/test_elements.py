"""The pipeline's elements do not depend on the process that makes them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from netpipe.workload.config import Config
from netpipe.workload.pipeline import build

_BATCHES = 8
_WORKERS = (1, 2, 4)

Batches = list[dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def first_batches(data_directory: Path, config: Config) -> dict[int, Batches]:
    """Return the first batches for each number of workers; the loaders run at the same time."""

    def load(workers: int) -> Batches:
        dataset = build(data_directory, replace(config.pipeline, workers=workers))
        iterator: Iterator[dict[str, np.ndarray]] = iter(dataset)
        try:
            return list(islice(iterator, _BATCHES))
        finally:
            iterator.close()  # type: ignore[attr-defined]  # Grain's iterators have it

    with ThreadPoolExecutor() as threads:
        return dict(zip((0, *_WORKERS), threads.map(load, (0, *_WORKERS)), strict=True))


@pytest.mark.parametrize("workers", _WORKERS)
def test_workers_do_not_change_the_batches(first_batches: dict[int, Batches], workers: int) -> None:
    """The first batches are equal, element by element, with or without workers."""
    assert len(first_batches[workers]) == _BATCHES
    for one, other in zip(first_batches[0], first_batches[workers], strict=True):
        assert one.keys() == other.keys()
        for key in one:
            np.testing.assert_array_equal(one[key], other[key], err_msg=key)
