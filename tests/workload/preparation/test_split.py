"""The choice of the eval probes."""

import numpy as np
import pytest

from netpipe.errors import InputError
from netpipe.workload.preparation.split import choose_eval


def test_the_fraction_is_approximate() -> None:
    """About a twentieth of ten thousand probes is chosen, and another seed chooses others."""
    probes = np.arange(10_000)
    chosen = choose_eval(probes, seed=0, eval_fraction=0.05)
    assert 400 < chosen.sum() < 600
    others = choose_eval(probes, seed=1, eval_fraction=0.05)
    assert (chosen & others).sum() < 60


def test_a_probe_keeps_its_split() -> None:
    """The split of a probe does not depend on the other probes."""
    probes = np.arange(1000)
    chosen = choose_eval(probes, seed=3, eval_fraction=0.1)
    np.testing.assert_array_equal(
        choose_eval(probes[500:], seed=3, eval_fraction=0.1), chosen[500:]
    )


@pytest.mark.parametrize("eval_fraction", [1e-9, 0.5, 1 - 1e-9])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_no_split_is_empty(count: int, eval_fraction: float) -> None:
    """Each split gets one of a few probes, whatever the seed."""
    for seed in range(20):
        chosen = choose_eval(np.arange(count), seed=seed, eval_fraction=eval_fraction)
        assert 0 < chosen.sum() < count


def test_one_probe_cannot_be_split() -> None:
    """A single probe is refused."""
    with pytest.raises(InputError, match=r"probes.* 2.*found 1"):
        choose_eval(np.array([7]))
