"""How long batches take, and loaders whose threads end."""

from itertools import islice
from statistics import fmean

import pytest

from perf_tests.studies.faults.parts.batches import batch
from perf_tests.studies.faults.parts.delays import Lognormal, RareTail, Steady
from perf_tests.studies.faults.parts.loaders import Prefetched, in_main_thread

MANY = 4000


def test_tails_have_the_mean_they_say() -> None:
    """Log-normal times have the given mean, and a rare tail the mean of its exponent."""
    assert fmean(map(Lognormal(0.5, 0.5), range(MANY))) == pytest.approx(0.5, rel=0.05)
    assert fmean(map(RareTail(0.1, 2.0, 3.0, every=10), range(MANY))) == pytest.approx(0.4, rel=0.1)


def test_a_prefetching_thread_hands_over_every_batch() -> None:
    """Batches arrive in order, and the iteration ends."""
    loader = Prefetched(islice(in_main_thread(Steady(0.0)), 5), depth=2)
    tokens = [int(batch["tokens"][0, 0]) for batch in loader]
    assert tokens == [int(batch(number)["tokens"][0, 0]) for number in range(5)]
