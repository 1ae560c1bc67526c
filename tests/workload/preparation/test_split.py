"""The choice of the eval probes."""

import numpy as np
import pytest
from numpy.typing import NDArray

from netpipe.errors import InputError
from netpipe.workload.preparation.split import EvalChoice, find_extremes


def _choose(probes: NDArray[np.int64], seed: int, eval_fraction: float) -> NDArray[np.bool_]:
    choice = EvalChoice.among([find_extremes(probes, seed)], seed, eval_fraction)
    return choice.is_eval(probes)


def test_the_hash_of_a_probe_decides() -> None:
    """About a twentieth is chosen, by the seed, and for each probe alone."""
    probes = np.arange(10_000)
    chosen = _choose(probes, 0, 0.05)
    assert 400 < chosen.sum() < 600
    assert (chosen & _choose(probes, 1, 0.05)).sum() < 60
    np.testing.assert_array_equal(_choose(probes[5000:], 0, 0.05), chosen[5000:])


@pytest.mark.parametrize("eval_fraction", [1e-9, 0.5, 1 - 1e-9])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_no_split_is_empty(count: int, eval_fraction: float) -> None:
    """Each split gets one of a few probes, whatever the seed."""
    for seed in range(20):
        assert 0 < _choose(np.arange(count), seed, eval_fraction).sum() < count


def test_one_probe_cannot_be_split() -> None:
    """A single probe is refused."""
    with pytest.raises(InputError, match=r"probes.* 2.*found 1"):
        _choose(np.array([7]), 0, 0.05)
