"""Randomness from a counter."""

import numpy as np

from netpipe.workload.sampling.counter_rng import fold_key, uniform
from tests.workload import reference


def test_published_splitmix64_values() -> None:
    """Key 0 gives the numbers that SplitMix64 gives for seed 0."""
    published = np.array([0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F], np.uint64)
    drawn = uniform(np.zeros(1, np.uint64), 0, np.arange(3))
    np.testing.assert_array_equal(drawn, (published >> np.uint64(11)).astype(float) * 2.0**-53)


def test_keys_equal_the_reference() -> None:
    """Keys of arrays are those of plain integers, negative and very large ones too."""
    rows = np.array([0, 1, -5, 2**62], np.int64)
    keys = fold_key(2**64 - 1, 3, rows)
    assert keys.tolist() == [reference.fold_key(2**64 - 1, 3, row) for row in rows.tolist()]


def test_draws_equal_the_reference() -> None:
    """A table of draws equals the reference's draws, one by one."""
    keys = fold_key(7, np.arange(5))
    table = uniform(keys[:, None], 4, np.arange(6))
    expected = [[reference.uniform(int(key), 4, slot) for slot in range(6)] for key in keys]
    assert table.tolist() == expected
