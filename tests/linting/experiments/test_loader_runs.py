"""Runs of a loader that ends, continues, fails or hangs."""

from dataclasses import dataclass
from math import inf
from threading import Event, Thread
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from netpipe.errors import HangError
from netpipe.linting.experiments import loader_runs
from netpipe.linting.experiments.loader_runs import element_count, read_batches
from netpipe.measuring.loader_puller import LoaderFactory
from tests.fakes import FakeClock

AMPLE_S = 120.0


def numbers(most: int) -> LoaderFactory:
    """A factory of batches of two numbers."""
    return lambda: iter([np.array([number, number]) for number in range(most)])


def test_a_run_ends_with_the_data(clock: FakeClock) -> None:
    """Finite data is read whole, elements counted, a digest of each batch kept."""
    read = read_batches(numbers(3), inf, AMPLE_S, clock)
    assert (read.whole, read.elements, len(set(read.digests))) == (True, 6, 3)
    assert read == read_batches(numbers(3), inf, AMPLE_S, clock)


def test_a_run_ends_when_it_has_enough(clock: FakeClock) -> None:
    """Only as many batches are read as requested, and the iterator is closed."""
    closed = []

    def batches() -> Any:
        try:
            while True:
                yield np.zeros(1)
        finally:
            closed.append(True)

    read = read_batches(batches, 5, AMPLE_S, clock)
    assert (read.whole, len(read.digests), closed) == (False, 5, [True])


def test_a_run_ends_when_its_time_is_over(clock: FakeClock) -> None:
    """Time is checked between batches, and counts from the first one."""

    def batches() -> Any:
        while True:
            clock.sleep(10.0)
            yield np.zeros(1)

    assert len(read_batches(batches, inf, 25.0, clock).digests) == 4


def test_a_run_that_hangs_keeps_what_came(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that came before a loader hung are kept, and the loader is abandoned."""
    came, go_on = Event(), Event()
    graces_s: list[float] = []

    def batches() -> Any:
        yield np.zeros(1)
        came.set()
        go_on.wait()

    def left_once_it_hangs(work: Any, _limit_s: float, grace_s: Any) -> None:
        Thread(target=work, daemon=True).start()
        assert came.wait(AMPLE_S)
        graces_s.append(grace_s())
        raise HangError("left")

    monkeypatch.setattr(loader_runs, "call_within", left_once_it_hangs)
    read = read_batches(batches, inf, AMPLE_S, clock)
    go_on.set()
    assert (read.whole, len(read.digests), read.failure) == (False, 1, "")
    assert (read.hung, graces_s) == (True, [6.0])


def test_a_loader_that_fails_as_it_is_killed_has_hung(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception because the workers were killed does not hide that the loader hung."""

    def killed() -> Any:
        yield np.zeros(1)
        raise RuntimeError("a worker is gone")

    def left(work: Any, _limit_s: float, _grace_s: Any) -> None:
        with pytest.raises(RuntimeError):
            work()
        raise HangError("left")

    monkeypatch.setattr(loader_runs, "call_within", left)
    assert read_batches(killed, inf, AMPLE_S, clock).hung


def test_a_loader_that_is_slow_to_end_has_not_hung(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A loader that hangs while it is closed has given its batches, and gets more time."""
    graces_s: list[float] = []

    def left_once_it_closes(work: Any, _limit_s: float, grace_s: Any) -> None:
        graces_s.append(grace_s())
        work()
        graces_s.append(grace_s())
        raise HangError("left")

    monkeypatch.setattr(loader_runs, "call_within", left_once_it_closes)
    read = read_batches(numbers(3), inf, AMPLE_S, clock)
    assert (read.whole, read.hung, graces_s) == (True, False, [6.0, 6.0])


def test_a_run_that_fails_says_why(clock: FakeClock) -> None:
    """The run has the loader's exception, on one line."""

    def batches() -> Any:
        yield np.zeros(1)
        raise ValueError("bad record\nin shard 7")

    read = read_batches(batches, inf, AMPLE_S, clock)
    assert (len(read.digests), read.failure) == (1, "failed: ValueError: bad record")


@dataclass
class Example:
    """A user's own class of batch."""

    tokens: Any
    name: str = ""


@pytest.mark.parametrize(
    ("batch", "elements"),
    [
        (np.zeros((4, 2)), 4),
        ({"x": np.zeros((4, 2)), "y": np.zeros(9)}, 9),
        ({"x": {"y": jnp.zeros((3, 2))}}, 3),
        ((np.zeros(1), np.zeros(5)), 5),
        ({"meta": np.zeros(0), "x": np.zeros((4, 2))}, 4),
        ({"meta": np.zeros(0)}, 1),
        ([], 1),
        ({"tokens": [np.zeros(7), np.zeros(2)]}, 2),
        (Example(np.zeros((6, 1))), 6),
        (7, 1),
        ("text", 1),
        ({}, 1),
        (np.float32(1), 1),
    ],
)
def test_elements_are_counted(batch: object, elements: int) -> None:
    """The largest leading dimension counts, and the items of a ragged list; a scalar is one."""
    assert element_count(batch) == elements
