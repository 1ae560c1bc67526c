"""Pipelines that are deep, endless, shared, or of the user's own classes."""

import json
from math import inf, nan
from typing import Any

import cloudpickle
import grain
import numpy as np
import pytest

from netpipe.grain_access.reader import read_graph

WORKERS = grain.MultiprocessingOptions(num_workers=2)


class Adds(grain.transforms.Map):  # type: ignore[misc]  # grain is untyped
    """A transform that holds data."""

    def __init__(self, held: Any) -> None:
        self.held = held

    def map(self, element: int) -> Any:
        """Add to the element."""
        return element + self.held[0]


class Slow:
    """A source that counts how often it is asked for its length."""

    def __init__(self) -> None:
        self.asked = 0

    def __len__(self) -> int:
        self.asked += 1
        return 8

    def __getitem__(self, index: int) -> int:
        raise AssertionError(index)


class Own(grain.IterDataset):  # type: ignore[misc]
    """A dataset of the user's, with names of its own."""

    def __init__(self, parent: Any, held: Any) -> None:
        super().__init__(parent)
        self._ds = self._source = held
        self._datasets = [held]

    def __iter__(self) -> Any:
        raise AssertionError


def stream() -> Any:
    """Return a new IterDataset."""
    return grain.MapDataset.range(8).to_iter_dataset()


@pytest.mark.parametrize(
    ("dataset", "name", "value"),
    [
        (grain.experimental.LimitIterDataset(stream(), inf), "count", "inf"),
        (
            grain.experimental.WithOptionsIterDataset(
                stream(), grain.experimental.DatasetOptions(filter_warn_threshold_ratio=nan)
            ),
            "filter_warn_threshold_ratio",
            "nan",
        ),
    ],
    ids=["inf", "nan"],
)
def test_a_number_that_json_does_not_have_is_text(dataset: Any, name: str, value: str) -> None:
    """Infinity and nan are written as text."""
    node = read_graph(dataset).nodes[0]
    assert node.parameters[name] == value
    json.dumps(dict(node.parameters), allow_nan=False)


def test_a_class_of_the_users_reads_from_its_parents() -> None:
    """Attributes of a user's class are not searched for datasets."""
    looked_up = stream().mp_prefetch(WORKERS)
    graph = read_graph(Own(stream(), looked_up))
    assert [node.kind for node in graph.nodes] == ["Unknown:Own", "ToIter", "Source"]


@pytest.mark.parametrize(
    "held", [np.ones(100_000), bytes(800_000), list(range(10_000))], ids=["array", "bytes", "list"]
)
def test_an_object_of_two_maps_is_sent_once(held: Any) -> None:
    """The object counts for the first map, because the pickle contains it once."""
    dataset = grain.MapDataset.range(8).map(Adds(held)).map(Adds(held)).to_iter_dataset()
    graph = read_graph(dataset.mp_prefetch(WORKERS))
    first, second = (node.sent_bytes or 0 for node in graph.of_kind("Map"))
    assert second < 2000 < first
    total = sum(node.sent_bytes or 0 for node in graph.nodes if node.in_worker)
    assert total == pytest.approx(len(cloudpickle.dumps(dataset)), rel=0.05)


def test_an_object_of_two_pools_is_sent_to_both() -> None:
    """Each mp_prefetch pickles the nodes below it."""
    held = np.ones(100_000)
    pools = [stream().map(Adds(held)).mp_prefetch(WORKERS) for _ in range(2)]
    graph = read_graph(grain.IterDataset.mix(pools))
    assert [node.sent_bytes for node in graph.of_kind("Map")] == [
        pytest.approx(held.nbytes, rel=0.01)
    ] * 2


@pytest.mark.parametrize("workers", [0, 1])
def test_a_deep_pipeline_is_read(workers: int) -> None:
    """All of four hundred maps are read, in their order."""
    dataset = grain.MapDataset.range(8)
    for _ in range(400):
        dataset = dataset.map(Adds([1]))
    options = grain.MultiprocessingOptions(num_workers=workers)
    graph = read_graph(dataset.to_iter_dataset().mp_prefetch(options))
    assert len(graph.of_kind("Map")) == 400
    assert [node.parents for node in graph.nodes[:-1]] == [(n,) for n in range(1, len(graph.nodes))]
    assert not any(node.unpicklable for node in graph.nodes)


def test_a_source_is_asked_for_its_length_once() -> None:
    """Getting a length may take seconds; here it is read in workers and in the training process."""
    source = Slow()
    base = grain.MapDataset.source(source)
    dataset = grain.IterDataset.mix(
        [base.to_iter_dataset().mp_prefetch(WORKERS), base.to_iter_dataset()]
    )
    source.asked = 0
    assert len(read_graph(dataset).of_kind("Source")) == 2
    assert source.asked == 1
