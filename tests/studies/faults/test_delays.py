"""How long batches take, and loaders whose threads end."""

from itertools import islice
from statistics import fmean

import pytest

from perf_tests.studies.faults.batches import batch
from perf_tests.studies.faults.delays import Lognormal, OneSlowWorker, RareTail, Steady, Stutter
from perf_tests.studies.faults.loaders import Prefetched, TorchStyle, in_main_thread

MANY = 4000


def test_a_stutter_comes_at_its_period() -> None:
    """Only every third batch pauses."""
    assert [Stutter(1.0, 10.0, 3)(number) for number in range(6)] == [1, 1, 11, 1, 1, 11]


def test_one_worker_of_several_is_slow() -> None:
    """Only the last of three workers is slow."""
    assert [OneSlowWorker(1.0, 5.0, 3)(number) for number in range(6)] == [1, 1, 5, 1, 1, 5]


def test_tails_have_the_mean_they_say() -> None:
    """Log-normal times have the given mean, and a rare tail the mean of its exponent."""
    assert fmean(map(Lognormal(0.5, 0.5), range(MANY))) == pytest.approx(0.5, rel=0.05)
    assert fmean(map(RareTail(0.1, 2.0, 3.0, every=10), range(MANY))) == pytest.approx(0.4, rel=0.1)


@pytest.mark.parametrize("delay", [Lognormal(0.1, 0.5), RareTail(0.1, 2.0, 3.0, every=1)])
def test_a_batch_takes_the_same_time_in_every_process(delay: Lognormal | RareTail) -> None:
    """A random time depends on the batch's number alone."""
    assert delay(17) == delay(17)
    assert delay(17) != delay(18)


def test_a_prefetching_thread_hands_over_every_batch() -> None:
    """Batches arrive in order, and the iteration ends."""
    loader = Prefetched(islice(in_main_thread(Steady(0.0)), 5), depth=2)
    tokens = [int(batch["tokens"][0, 0]) for batch in loader]
    assert tokens == [int(batch(number)["tokens"][0, 0]) for number in range(5)]


def test_what_a_buffer_lends_is_there_at_once() -> None:
    """A full buffer gives batches before its thread has made one."""
    loader = Prefetched(iter(()), depth=3, lent=2)
    assert len(list(islice(loader, 2))) == 2
    assert list(loader) == []


def test_a_torch_style_loader_can_be_iterated_again() -> None:
    """Each epoch has as many batches as its length."""
    loader = TorchStyle(Steady(0.0), Steady(0.0), batches=3)
    assert len(loader) == len(list(loader)) == len(list(loader)) == 3
