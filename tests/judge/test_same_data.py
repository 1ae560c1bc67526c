"""Whether two versions give the same batches, and whole epochs."""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from netpipe.jobs.targets import Factories
from netpipe.judge.judgement import Check
from netpipe.judge.reading import Reading, ReadRequest
from netpipe.judge.reading_job import read_loader
from netpipe.judge.same_data import check_complete, compare_data
from netpipe.results.fields import parse
from tests.judge import loaders

Loader = Callable[..., Any]


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., Reading]:
    """Return a function that reads a loader in this process."""

    def read(loader: Loader, batches: int = 100) -> Reading:
        request = ReadRequest(batches=batches, result=str(tmp_path / "result"))
        return parse(read_loader(request, Factories(loader), ExitStack())["read"], Reading, "test")

    return read


@pytest.fixture
def compare(read: Callable[..., Reading]) -> Callable[..., tuple[Check, Check]]:
    """Return a function that compares the data and the epoch of a loader with another's."""

    def compare(now: Loader, then: Loader = loaders.batches, batches: int = 100) -> Any:
        both = read(now, batches), read(then, batches)
        return compare_data(*both), check_complete(*both)

    return compare


Compare = Callable[..., tuple[Check, Check]]


@pytest.mark.parametrize(
    ("now", "then"),
    [
        (loaders.batches, loaders.batches),
        (loaders.vectorised, loaders.batches),
        (loaders.endless, loaders.endless),
        (loaders.sharded, loaders.sharded),
        (loaders.any_workers, loaders.any_workers),
        (loaders.ShuffledEachTime, loaders.ShuffledEachTime),
    ],
)
def test_equal_data_are_identical_and_complete(compare: Compare, now: Loader, then: Loader) -> None:
    """A loader that ends, repeats, or has workers or shards is as the same loader."""
    data, complete = compare(now, then)
    assert (data.outcome, complete.outcome) == ("IDENTICAL", "COMPLETE")
    assert (data.status, complete.status) == ("fine", "fine")


@pytest.mark.parametrize(
    ("cheat", "data", "how", "leaf", "complete"),
    [
        ("batches repeated", "DIFFERENT", "values", "label", "REPEATED"),
        ("rows dropped", "DIFFERENT", "end", "", "LOST"),
        ("shuffle removed", "SAME_ELEMENTS", "values", "label", "COMPLETE"),
        ("shuffled after the batch", "SAME_ELEMENTS", "values", "label", "COMPLETE"),
        ("other seed", "SAME_ELEMENTS", "values", "label", "COMPLETE"),
        ("remainder dropped", "DIFFERENT", "end", "", "LOST"),
        ("dtype narrowed", "DIFFERENT", "dtype", "tokens", "NOT_COMPARED"),
        ("fewer tokens", "DIFFERENT", "shape", "tokens", "NOT_COMPARED"),
        ("leaf dropped", "DIFFERENT", "leaves", "label", "NOT_COMPARED"),
        ("decode skipped", "DIFFERENT", "values", "tokens", "NOT_COMPARED"),
        ("labels shifted", "DIFFERENT", "values", "label", "NOT_COMPARED"),
        ("larger batches", "SAME_ELEMENTS", "shape", "label", "COMPLETE"),
    ],
)
def test_changed_data_are_found(
    compare: Compare, cheat: str, data: str, how: str, leaf: str, complete: str
) -> None:
    """The first leaf that differs is named, and whether elements were lost or repeated."""
    found, whole = compare(loaders.CHEATS[cheat])
    assert (found.outcome, found.status, whole.outcome) == (data, "worse", complete)
    assert found.difference is not None
    assert (found.difference.how, found.difference.leaf) == (how, leaf)
    assert leaf in found.reason


def test_a_difference_has_its_figures(compare: Compare) -> None:
    """The batch is numbered from 0, and the elements are counted."""
    found, _ = compare(loaders.CHEATS["decode skipped"])
    assert found.difference is not None
    assert found.difference.batch == 0
    assert found.reason.endswith("of 40 elements, 10 are missing; 10 others came")
    found, _ = compare(loaders.CHEATS["batches repeated"])
    assert found.reason.endswith("of 40 elements, 20 are missing; 0 others came, and 20 again")


def test_another_order_has_its_displacement(compare: Compare) -> None:
    """Elements that swap neighbours move by one place; larger batches move none."""

    def swapped() -> Iterable[Any]:
        for batch in loaders.batches():
            yield {name: array[[1, 0, 3, 2]] for name, array in batch.items()}

    found = [compare(each)[0].difference for each in (swapped, loaders.CHEATS["larger batches"])]
    assert [each and each.displacement for each in found] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("now", "then", "where", "outcome"),
    [
        (loaders.ShuffledOnce, loaders.ShuffledEachTime, "the second epoch", "SAME_ELEMENTS"),
        (loaders.endless_in_one_order, loaders.endless, "the first batches", "SAME_ELEMENTS"),
        (loaders.ordered_by_workers, loaders.any_workers, "2 workers", "SAME_ELEMENTS"),
        (loaders.sharded_alike, loaders.sharded, "shard 1 of 2", "DIFFERENT"),
    ],
)
def test_changes_beyond_the_first_epoch_are_found(
    compare: Compare, now: Loader, then: Loader, where: str, outcome: str
) -> None:
    """Later epochs, other workers, and shards are compared; of many epochs, the whole ones."""
    found, _ = compare(now, then, 95)
    assert found.outcome == outcome
    assert found.reason.startswith(f"{where}: batch ")


def test_shards_that_overlap_are_not_complete(compare: Compare) -> None:
    """Two hosts that read one shard repeat its elements, and lose the others."""
    _, complete = compare(loaders.sharded_alike, loaders.sharded)
    assert complete.outcome == "REPEATED"
    assert "all shards" in complete.reason


def test_nothing_is_not_compared(compare: Compare) -> None:
    """Two loaders without a batch are not the same data, nor complete."""
    data, complete = compare(list, list)
    assert (data.status, complete.status) == ("open", "open")
    assert data.reason == "neither version gives a batch"
    assert "ended" not in complete.reason


@pytest.mark.parametrize(
    ("now", "then", "outcome", "where"),
    [
        (loaders.any_workers, loaders.batches, "IDENTICAL", ""),
        (loaders.batches, loaders.any_workers, "IDENTICAL", ""),
        (loaders.ordered_by_workers, loaders.batches, "SAME_ELEMENTS", "2 workers"),
        (loaders.batches, loaders.ordered_by_workers, "SAME_ELEMENTS", "2 workers"),
        (lambda: loaders.sharded(), loaders.sharded, "NOT_COMPARED", "shard 0 of 2"),
        (loaders.sharded, lambda: loaders.sharded(), "IDENTICAL", ""),
    ],
)
def test_a_parameter_of_one_version(
    compare: Compare, now: Loader, then: Loader, outcome: str, where: str
) -> None:
    """Every number of workers must give the same; shards that are gone cannot be compared."""
    data, complete = compare(now, then)
    assert (data.outcome, complete.outcome) == (outcome, "COMPLETE")
    assert data.reason.startswith(where)


def test_new_shards_must_be_complete(compare: Compare) -> None:
    """Together, they must hold an epoch of this version."""
    _, complete = compare(loaders.sharded_alike, lambda: loaders.sharded())
    assert complete.outcome == "REPEATED"


def test_an_epoch_that_does_not_end_is_not_compared(compare: Compare) -> None:
    """Nothing is known about elements that were not read."""
    for loader, batches in ((loaders.endless_without_end, 30), (loaders.batches, 5)):
        data, complete = compare(loader, loader, batches)
        assert (data.outcome, complete.outcome) == ("IDENTICAL", "NOT_COMPARED")
        assert complete.status == "open"
        assert "--batches" in complete.reason


def test_an_epoch_of_exactly_the_limit_ends(compare: Compare) -> None:
    """The end is seen after the last batch that is read."""
    assert compare(loaders.batches, loaders.batches, 10)[1].outcome == "COMPLETE"


def test_an_end_at_the_limit_is_a_difference(compare: Compare) -> None:
    """A loader that ended is not the same as one that goes on."""
    data, _ = compare(loaders.batches, loaders.endless_without_end, 10)
    assert data.status == "worse"
    assert "only this version has ended" in data.reason


def test_another_start_of_a_long_epoch_is_different(compare: Compare) -> None:
    """The elements that came instead may or may not come later."""
    assert compare(loaders.CHEATS["other seed"], loaders.batches, 5)[0].outcome == "DIFFERENT"


def test_empty_batches_may_differ(compare: Compare) -> None:
    """Batches without rows have no elements to compare, but dtypes."""
    empty, other = ([{"x": np.zeros(0, dtype)}] for dtype in (np.int32, np.int64))
    assert compare(lambda: empty, lambda: empty)[0].outcome == "IDENTICAL"
    assert compare(lambda: empty, lambda: other)[0].outcome == "DIFFERENT"


def test_batches_without_rows_are_elements(compare: Compare) -> None:
    """A batch with a scalar beside its arrays counts as one element."""

    def numbered(start: int = 0) -> Iterable[Any]:
        for number, batch in enumerate(loaders.batches(), start):
            yield {**batch, "number": number}

    assert compare(numbered, numbered)[0].outcome == "IDENTICAL"
    found, _ = compare(lambda: numbered(1), numbered)
    assert found.difference is not None
    assert found.difference.leaf == "number"
    assert "of 10 elements" in found.reason
