"""The counted elements of a pipeline, compared with those that Grain yields."""

from collections.abc import Callable
from math import inf
from typing import Any

import grain
import pytest

from netpipe.grain_access.nodes import ENDLESS, Graph, Node
from netpipe.grain_access.reader import read_graph
from netpipe.linting.rules.batch_contents import count_elements
from tests.linting.rules.linting import NO_THREADS, OneToThree, loader, numbers, source, stream

X = grain.experimental


def amount(dataset: Any) -> float | None:
    """Return the count of a dataset's elements."""
    graph = read_graph(dataset)
    return count_elements(graph)[0]


@pytest.mark.parametrize(
    "make",
    [
        numbers,
        lambda: grain.MapDataset.range(3, 30, 4),
        lambda: numbers().shuffle(seed=1).map(abs).seed(1),
        lambda: numbers().repeat(3),
        lambda: numbers()[3:20:2],
        lambda: numbers().batch(4),
        lambda: numbers().batch(4, drop_remainder=True),
        lambda: grain.MapDataset.concatenate([numbers(), numbers(5)]),
        lambda: X.ZipMapDataset([numbers(), numbers()]),
        lambda: X.ZipIterDataset([stream(), stream(5)], strict=False),
        lambda: X.LimitIterDataset(stream(), 7),
        lambda: X.LimitIterDataset(stream(5), 7),
        lambda: X.LimitIterDataset(numbers().repeat().to_iter_dataset(NO_THREADS), 7),
        lambda: X.RepeatIterDataset(stream(5).batch(2), 3),
        lambda: X.WindowShuffleIterDataset(X.CacheIterDataset(stream()), window_size=4, seed=1),
        lambda: X.ThreadPrefetchIterDataset(stream(), prefetch_buffer_size=2),
    ],
)
def test_the_count_equals_the_elements_that_come(make: Callable[[], Any]) -> None:
    """The count is exact."""
    assert amount(make()) == sum(1 for _ in make())


@pytest.mark.parametrize(
    "endless",
    [
        numbers().repeat(),
        numbers().repeat()[1::2].batch(4),
        numbers().filter(bool).repeat(),
        numbers().repeat().filter(bool),
        X.RepeatIterDataset(stream().filter(bool)),
        X.FlatMapIterDataset(numbers().repeat().to_iter_dataset(), OneToThree()),
        grain.MapDataset.mix([numbers().repeat(), numbers(5).repeat()]),
        source(ENDLESS),
        loader(workers=0),
    ],
)
def test_endless_data_count_as_infinite(endless: Any) -> None:
    """The count is infinite, even through nodes that change the number of elements."""
    assert amount(endless) == inf


@pytest.mark.parametrize(
    "open_ended",
    [
        numbers().filter(bool),
        stream().filter(bool).batch(4),
        X.FlatMapMapDataset(numbers(), OneToThree()),
        grain.MapDataset.mix([numbers(), numbers(5).repeat()]),
        X.ParquetIterDataset("a.parquet"),
    ],
)
def test_counts_that_depend_on_the_elements_are_unknown(open_ended: Any) -> None:
    """The count is None."""
    assert amount(open_ended) is None


def test_a_node_with_many_readers_is_counted_once() -> None:
    """A dataset with millions of paths to it is counted once."""
    dataset = stream()
    for _ in range(40):
        dataset = X.ZipIterDataset([dataset, dataset])
    assert amount(dataset) == 22


def test_a_long_pipeline_is_counted() -> None:
    """The length of a pipeline has no limit."""
    first = Node(5_000, "Source", {"length": 22}, (), in_worker=False)
    maps = [Node(number, "Map", {}, (number + 1,), in_worker=False) for number in range(5_000)]
    assert count_elements(Graph((*maps, first)))[0] == 22
