"""Runs over a loader that ends, goes on, fails or hangs, and digests that tell batches apart."""

from collections import namedtuple
from dataclasses import dataclass
from math import inf
from pickle import dumps, loads
from threading import Event, Lock, Thread
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

from netpipe.errors import HangError, HarnessError
from netpipe.linting.experiments import loader_runs
from netpipe.linting.experiments.loader_runs import digest, element_count, read_batches
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
    """No more batches are read than were asked for, and the iterator is closed."""
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
    """Time is looked at between batches, and runs from the first one on."""

    def batches() -> Any:
        while True:
            clock.sleep(10.0)
            yield np.zeros(1)

    assert len(read_batches(batches, inf, 25.0, clock).digests) == 4


def test_a_run_that_hangs_keeps_what_came(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that came before a loader hung are there, and the loader is left."""
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
    """What a loader raises because its workers were killed does not hide that it hung."""

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
    """What hangs as it is closed has given its batches, and is given longer."""
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
    """What the loader raised is in the run, on a line."""

    def batches() -> Any:
        yield np.zeros(1)
        raise ValueError("bad record\nin shard 7")

    read = read_batches(batches, inf, AMPLE_S, clock)
    assert (len(read.digests), read.failure) == (1, "failed: ValueError: bad record")


# ---- Digests

Pair = namedtuple("Pair", ["left", "right"])


@dataclass
class Example:
    """A user's own class of batch."""

    tokens: Any
    name: str = ""


class Slotted:
    """An object without a dict."""

    __slots__ = ("value",)

    def __init__(self, value: object) -> None:
        self.value = value


PADDED = np.dtype([("small", "i1"), ("large", "i8")], align=True)

DIFFERENT: list[tuple[object, object]] = [
    (np.arange(3), np.arange(4)),
    (np.zeros(6), np.zeros((2, 3))),
    (np.zeros(3, "i4"), np.zeros(3, "f4")),
    (np.zeros(2, "f2"), np.zeros(2, ml_dtypes.bfloat16)),
    (np.array([0.0]), np.array([-0.0])),
    (np.array(["a", "b"]), np.array(["a", "c"])),
    (np.array(["a", [1]], object), np.array(["a", [2]], object)),
    (np.array([(1, 2)], PADDED), np.array([(1, 3)], PADDED)),
    ({"a": 1}, {"b": 1}),
    ({"a": [np.arange(2), np.arange(3)]}, {"a": [np.arange(3), np.arange(2)]}),
    ([1, 2], (1, 2)),
    (["ab", "c"], ["a", "bc"]),
    ([[1], 2], [[1, 2]]),
    ("1", 1),
    (1, True),
    (b"x", "x"),
    (None, 0),
    ({1, 2}, {1, 3}),
    (Pair(1, 2), Pair(1, 3)),
    (Example(np.zeros(2)), Example(np.ones(2))),
    (Example(np.zeros(2), "a"), Example(np.zeros(2), "b")),
    (Slotted(1), Slotted(2)),
    (jnp.zeros(2), jnp.ones(2)),
    (int, float),
]


@pytest.mark.parametrize(("batch", "other"), DIFFERENT)
def test_different_contents_differ(batch: object, other: object) -> None:
    """Any difference in values, types or shapes shows, and a copy that was sent shows none."""
    assert digest(batch) != digest(other)
    assert digest(batch) == digest(loads(dumps(batch)))
    assert digest(other) == digest(loads(dumps(other)))


def test_equal_contents_are_equal() -> None:
    """The order of a dict, the layout of an array, NaN, padding and sharing make no difference."""
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    grid = np.arange(6).reshape(2, 3)
    assert digest(grid.T) == digest(grid.T.copy())
    assert digest(np.array([np.nan])) == digest(np.array([np.nan]))
    assert digest(np.float32(1)) == digest(np.array(1, np.float32))
    shared = "a" * 3
    assert digest([Slotted(shared), Slotted(shared)]) == digest(
        [Slotted("".join(["aa", "a"])), Slotted("".join(["a", "aa"]))]
    )
    padded = np.frombuffer(bytes(range(32)), PADDED).copy()
    cleared = np.zeros(2, PADDED)
    cleared["small"], cleared["large"] = padded["small"], padded["large"]
    assert digest(padded) == digest(cleared)


def test_an_object_without_visible_contents_is_refused() -> None:
    """An object that hides its contents, or holds itself, is named."""
    with pytest.raises(HarnessError, match=r"cannot be compared: .*\block\b"):
        digest({"lock": Lock()})
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(HarnessError, match="list cannot be compared"):
        digest(endless)


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
    """The largest leading dimension counts, the items of a ragged list, one a scalar."""
    assert element_count(batch) == elements
