"""Whether another order is as well shuffled."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grain
import numpy as np
import pytest

from netpipe.errors import MisuseError
from netpipe.jobs.targets import Factories
from netpipe.judge.delivered import check_shuffled
from netpipe.judge.judgement import Check
from netpipe.judge.reading import Reading, ReadRequest
from netpipe.judge.reading_job import read_loader
from netpipe.results.fields import parse

ELEMENTS, BATCH = 480, 8
Loader = Callable[[], Iterable[Any]]


def shuffled(seed: int = 1, *, repeats: bool = False) -> Loader:
    """Return a factory of uniformly shuffled batches, in one epoch or endless."""

    def make() -> Any:
        dataset = grain.MapDataset.range(ELEMENTS).shuffle(seed=seed)
        return (dataset.repeat() if repeats else dataset).batch(BATCH)

    return make


def unshuffled() -> Any:
    """Return batches in the order of the source."""
    return grain.MapDataset.range(ELEMENTS).batch(BATCH)


def batches_shuffled() -> Any:
    """Return batches of neighbours, in another order."""
    return unshuffled().shuffle(seed=1)


def in_one_window() -> Any:
    """Return elements that are shuffled among their neighbours."""
    dataset = grain.MapDataset.range(ELEMENTS)
    return grain.experimental.WindowShuffleMapDataset(dataset, window_size=16, seed=1).batch(BATCH)


def altered() -> Any:
    """Return other elements."""
    return grain.MapDataset.range(1, ELEMENTS + 1).shuffle(seed=1).batch(BATCH)


def twice() -> Iterator[Any]:
    """Yield the first half of the elements two times."""
    half = list(shuffled()())[: ELEMENTS // BATCH // 2]
    yield from half + half


def with_an_empty_batch(seed: int) -> Callable[..., Any]:
    """Return a factory of batches, shuffled unless told otherwise, after one without elements."""

    def make(*, shuffle: bool = True) -> Iterator[Any]:
        yield np.arange(0)
        yield from shuffled(seed)() if shuffle else unshuffled()

    return make


def iterated(seed: int) -> Loader:
    """Return a factory of iterators over shuffled batches."""
    return lambda: iter(shuffled(seed)())


def on_demand() -> Iterator[Any]:
    """Yield shuffled batches of a dataset that is made with the first batch."""
    yield from shuffled()()


@pytest.fixture
def check(tmp_path: Path) -> Callable[..., Check]:
    """Return a function that compares how a loader shuffles with another one."""

    def read(loader: Loader, *, shuffles: bool, batches: int) -> Reading:
        request = ReadRequest(batches=batches, shuffles=shuffles, result=str(tmp_path / "result"))
        return parse(read_loader(request, Factories(loader), ExitStack())["read"], Reading, "test")

    def check(now: Loader, then: Loader, batches: int = 150) -> Check:
        readings = [read(each, shuffles=True, batches=batches) for each in (now, then)]
        source = read(then, shuffles=False, batches=batches)
        return check_shuffled(readings[0], readings[1], source)

    return check


@pytest.mark.parametrize(
    ("now", "then", "outcome"),
    [
        (shuffled(2), shuffled(), "NO_WORSE"),
        (shuffled(2, repeats=True), shuffled(repeats=True), "NO_WORSE"),
        (shuffled(), unshuffled, "NO_WORSE"),
        (unshuffled, shuffled(), "WORSE"),
        (batches_shuffled, shuffled(), "WORSE"),
        (in_one_window, shuffled(), "WORSE"),
        (shuffled(), in_one_window, "NO_WORSE"),
        (altered, shuffled(), "NOT_COMPARED"),
        (twice, shuffled(), "WORSE"),
        (with_an_empty_batch(2), with_an_empty_batch(1), "NO_WORSE"),
        (unshuffled, iterated(1), "WORSE"),
    ],
)
def test_another_order_is_worse_or_not(
    check: Callable[..., Check], now: Loader, then: Loader, outcome: str
) -> None:
    """Elements are placed by the order that the base has without its shuffle."""
    assert check(now, then).outcome == outcome


def test_a_shuffle_that_cannot_be_turned_off_is_not_the_source(check: Callable[..., Check]) -> None:
    """A change that removes it would seem to shuffle as well."""
    with pytest.raises(MisuseError, match="no Grain dataset and takes no parameter"):
        check(unshuffled, on_demand)


def test_larger_batches_in_the_same_order_are_no_worse(check: Callable[..., Check]) -> None:
    """The order is the same, so the places of its elements need not be known."""
    larger = check(lambda: altered().batch(2).map(np.concatenate), altered, 20)
    assert (larger.outcome, larger.reason) == ("NO_WORSE", "in the same order")


def test_a_part_of_an_epoch_is_not_compared(check: Callable[..., Check]) -> None:
    """Elements may come later from anywhere."""
    assert check(shuffled(2), shuffled(), 20).outcome == "NOT_COMPARED"


def test_equal_elements_keep_their_own_places(tmp_path: Path) -> None:
    """An element that the source has twice is not repeated."""

    def make(numbers: Sequence[int]) -> Loader:
        return lambda: grain.MapDataset.source(np.array(numbers)).batch(BATCH)

    request = ReadRequest(result=str(tmp_path / "result"))
    loader = make([number // 2 for number in range(ELEMENTS)])
    found = read_loader(request, Factories(loader), ExitStack())["read"]
    reading = parse(found, Reading, "test")
    assert check_shuffled(reading, reading, reading).outcome == "NO_WORSE"
