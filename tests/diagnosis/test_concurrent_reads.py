"""Measuring reads at the same time."""

from dataclasses import replace
from itertools import count
from math import inf
from threading import Event
from typing import Any

import grain
import numpy as np
import pytest

from netpipe.clock import Clock
from netpipe.diagnosis.experiments.read_scaling import _read_at_once, measure_read_scaling
from netpipe.diagnosis.experiments.turns import TimeSlot
from netpipe.errors import SessionError
from netpipe.grain_access.loader_variants import single_thread_variant
from netpipe.grain_access.reader import read_graph
from tests.diagnosis import loaders
from tests.diagnosis.examples import stage_time
from tests.fakes import FakeClock


def measure(loader: Any, clock: Any = None, budget_s: float = 60.0) -> Any:
    """Measure the reads of a loader whose stages below the threads take 1 ms of CPU."""
    made = single_thread_variant(loader)[0]().dataset  # type: ignore[attr-defined]
    times = [
        replace(stage_time(str(node), 0.001, node=node), calls_per_batch=1.0)
        for node in read_graph(made).nodes
    ]
    return measure_read_scaling(made, times, TimeSlot(clock or Clock(), budget_s, inf))


class Observed:
    """A source of numbers of 1 to 4 kB that records its reads."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def __len__(self) -> int:
        return 3000

    def __getitem__(self, index: int) -> np.ndarray:
        self.read.append(int(index))
        return np.full(1000 * (1 + int(index) % 4), index % 100, np.uint8)


def in_pairs(source: Any) -> Any:
    """Return a pipeline that reads two records for an element."""
    pairs = grain.MapDataset.source(source).map(np.sum).batch(2)
    return pairs.to_iter_dataset(loaders.THREADS)


def test_elements_are_read_after_the_first_third() -> None:
    """No element is read twice, and none of those that the loader begins with."""
    source = Observed()
    scaling = measure(lambda: in_pairs(source))
    positions = [read.position for reads in scaling.levels.values() for read in reads]
    assert min(positions) > 500  # the first quarter finds an idle storage
    assert len(set(positions)) == len(positions)
    assert min(source.read) == 1000


def test_each_thread_counts_its_own_reads_of_the_source() -> None:
    """An element of two records has two reads and the bytes of both."""
    scaling = measure(lambda: in_pairs(Observed()))
    for reads in scaling.levels.values():
        for read in reads:
            sizes = [
                1000 * (1 + number % 4) for number in (2 * read.position, 2 * read.position + 1)
            ]
            assert read.source_reads == 2
            assert read.source_bytes == pytest.approx(sum(sizes), abs=500)
            assert 0 < read.source_s <= read.element_s


def test_the_source_is_restored() -> None:
    """A loader that reads from the same dataset each time keeps its own source."""
    source = Observed()
    dataset = grain.MapDataset.source(source)
    measure(lambda: dataset.to_iter_dataset(loaders.THREADS))
    assert loaders.list_sources(dataset) == [source]


def test_grains_own_source_is_seen() -> None:
    """ArrayRecord, for example, is one."""
    numbers = grain.MapDataset.source(grain.sources.RangeDataSource(0, 3000, 1))
    scaling = measure(lambda: numbers.to_iter_dataset(loaders.THREADS))
    assert all(read.source_reads == 1 for reads in scaling.levels.values() for read in reads)


@pytest.mark.parametrize(
    "loader",
    [
        lambda: grain.IterDataset.mix([loaders.plain(), loaders.plain()], [0.5, 0.5]),
        loaders.Streaming,
    ],
    ids=["two", "none"],
)
def test_only_one_place_where_threads_can_read_is_measured(loader: Any) -> None:
    """With two or none, nothing is read."""
    dataset = loader()
    with pytest.raises(SessionError, match="must have one to_iter_dataset; found"):
        measure_read_scaling(dataset, [], TimeSlot(FakeClock(), 1.0, inf))


class Slow:
    """Elements that take a second on a clock."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock

    def __getitem__(self, position: int) -> None:
        self.clock.sleep(1.0)


def test_errors_of_the_source_propagate() -> None:
    """The threads end, and the first failure propagates."""

    class Broken(Observed):
        def __getitem__(self, index: int) -> np.ndarray:
            raise OSError("no such bucket")

    with pytest.raises(OSError, match="no such bucket"):
        measure(lambda: grain.MapDataset.source(Broken()).to_iter_dataset(loaders.THREADS))


@pytest.mark.parametrize(
    ("budget_s", "positions", "over_s"), [(40.0, [2, 3, 4, 5, 6, 7], 8.0), (2.0, [1], 2.0)]
)
def test_a_level_ends_with_its_share_of_the_time(
    budget_s: float, positions: list[int], over_s: float
) -> None:
    """The first quarter is left out; a thread that has read once still reads again."""
    clock = FakeClock()
    slot = TimeSlot(clock, budget_s, inf)
    reads = _read_at_once(Slow(clock), count(), 1, slot)
    assert [read.position for read in reads] == positions
    assert clock() == over_s


def test_a_read_that_does_not_fit_twice_says_nothing() -> None:
    """The first read of a thread finds an idle storage."""
    clock = FakeClock()
    with pytest.raises(SessionError, match="no time was left"):
        _read_at_once(Slow(clock), count(), 1, TimeSlot(clock, 2.0, 1.5))


def test_a_source_that_hangs_beside_others_costs_only_its_time() -> None:
    """The other levels do not begin, and nothing waits for the hanging reads."""
    released, clock = Event(), Clock()

    class Hanging:
        def __getitem__(self, position: int) -> int:
            released.wait()
            return position

    slot = TimeSlot(clock, 0.1, clock() + 0.3)
    try:
        with pytest.raises(SessionError, match="a read beside 3 others did not end in time"):
            _read_at_once(Hanging(), count(), 4, slot)
    finally:
        released.set()
