"""The end of an epoch: workers take 5 s to end, and only a run that goes on waits for them."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from netpipe.watching.watcher import Watcher
from tests.fakes import FakeClock
from tests.watching.conftest import Step, Watch


class Epochs:
    """Epochs of three batches of 1 s each; `on_second` is called in each second of their end."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock, self.on_second = clock, list[Callable[[], None]]()

    def __iter__(self) -> Iterator[int]:
        for number in range(3):
            self.clock.sleep(1)
            yield number
        for _ in range(5):
            self.clock.sleep(1)
            for call in self.on_second:
                call()


def train(watched: Watcher, clock: FakeClock, step_s: float = 9) -> Any:
    """Train for an epoch with steps that seem done at once; return the latest figures."""
    watched.on_step_end(Step(clock, 0.0))
    for _ in watched:
        clock.sleep(step_s)
    assert watched._latest is not None
    return watched._latest.figures


def test_the_end_of_an_epoch_is_a_wait_of_the_next(watch: Watch, clock: FakeClock) -> None:
    """It is part of the window of the next epoch, with its samples."""
    epochs = Epochs(clock)
    watched = watch(epochs)
    epochs.on_second.append(watched.sample)
    found = [train(watched, clock), train(watched, clock)]
    assert [each.seconds for each in found] == [30, 35]
    assert [each.waiting_fraction for each in found] == pytest.approx([3 / 30, 8 / 35])
    assert found[0].exposed_fraction is None
    assert found[1].exposed_fraction.n == 5


def test_an_evaluation_between_epochs(watch: Watch, clock: FakeClock) -> None:
    """A window without requests is dropped, and the end of the workers and samples with it."""
    watched = watch(Epochs(clock))
    train(watched, clock)
    clock.sleep(60)
    for _ in range(9):
        watched.sample()
    clock.sleep(1)
    watched.close_window()
    found = train(watched, clock)
    assert (found.seconds, found.waiting_fraction) == (30, pytest.approx(3 / 30))
    assert found.exposed_fraction is None


def test_a_window_may_end_while_workers_do(watch: Watch, clock: FakeClock) -> None:
    """Each second counts once: the first window has three seconds of the end, the next has two."""
    epochs = Epochs(clock)
    watched = watch(epochs)
    first: list[Any] = []

    def close() -> None:
        if clock() == 33:
            watched.close_window()
            assert watched._latest is not None
            first.append(watched._latest.figures)

    epochs.on_second.append(close)
    train(watched, clock)
    assert (first[0].seconds, first[0].waiting_fraction) == (33, pytest.approx(6 / 33))
    found = train(watched, clock)
    assert (found.seconds, found.waiting_fraction) == (32, pytest.approx(5 / 32))


def test_a_loader_without_batches(watch: Watch) -> None:
    """The loop ends, and no window is written."""
    watched = watch(iter(()))
    assert list(watched) == []
    watched.stop()
    assert watched._latest is None
