"""The pipeline's elements do not depend on the process that makes them."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from netpipe.workload.config import Config
from netpipe.workload.pipeline import build

_BATCHES = 8


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_workers_do_not_change_the_batches(
    data_directory: Path, config: Config, workers: int
) -> None:
    """The first batches are equal, element by element, with or without workers."""
    alone = _first_batches(data_directory, config, workers=0)
    shared = _first_batches(data_directory, config, workers=workers)
    for one, other in zip(alone, shared, strict=True):
        assert one.keys() == other.keys()
        for key in one:
            np.testing.assert_array_equal(one[key], other[key], err_msg=key)


def _first_batches(
    data_directory: Path, config: Config, workers: int
) -> list[dict[str, np.ndarray]]:
    dataset = build(data_directory, replace(config.pipeline, workers=workers))
    iterator: Iterator[dict[str, np.ndarray]] = iter(dataset)
    try:
        return list(islice(iterator, _BATCHES))
    finally:
        iterator.close()  # type: ignore[attr-defined]  # Grain's iterators have it
