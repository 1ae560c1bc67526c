"""The number of bytes of a pipeline that are sent to a worker."""

import threading
import tracemalloc
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import cloudpickle
import grain
import numpy as np
import pytest

from netpipe.grain_access import pickled_size
from netpipe.grain_access.pickled_size import PickleSizer
from netpipe.grain_access.reader import read_graph

WORKERS = grain.MultiprocessingOptions(num_workers=2)


class Table(grain.transforms.Map):  # type: ignore[misc]  # grain is untyped
    """A transform that holds data."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def map(self, element: int) -> Any:
        """Look the element up."""
        return self.table[element]


class Refuses:
    """An object that cannot be pickled, with a message of two lines."""

    def __reduce__(self) -> Any:
        raise ValueError("not\n  today")


def in_workers(dataset: Any) -> Any:
    """The dataset behind mp_prefetch."""
    return dataset.to_iter_dataset().mp_prefetch(WORKERS)


@pytest.mark.parametrize(
    "value",
    [
        None,
        list(range(1000)),
        "text" * 1000,
        bytes(300_000),
        np.arange(1000),
        np.ones((300, 300)).T,
        np.ones((300, 300))[::2],
        [np.arange(100) for _ in range(100)],
        {"a": np.arange(100), "b": [bytes(1000)] * 3},
        Table(np.arange(5000)),
        lambda element: element + np.ones(1000),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_count_is_that_of_the_pickle(value: object) -> None:
    """The count is within 2% or 64 bytes of the size of Grain's pickle."""
    assert PickleSizer().measure(value).bytes == pytest.approx(
        len(cloudpickle.dumps(value)), rel=0.02, abs=64
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: list(range(100_000)),
        lambda: tuple(map(str, range(20_000))),
        lambda: {str(number): [number, None] for number in range(20_000)},
        lambda: set(range(20_000)),
        lambda: frozenset(range(2_001)),
        lambda: [np.arange(number % 7) for number in range(10_000)],
        lambda: [np.arange(10_000)] * 10_000,
        lambda: [list(range(1_000)) for _ in range(2_500)],
        lambda: {each: dict.fromkeys(range(1_000), str(each)) for each in range(300)},
        lambda: np.array([str(number) for number in range(20_000)], object),
    ],
    ids=[
        "ints",
        "strings",
        "pairs",
        "set",
        "frozen",
        "arrays",
        "shared",
        "nested",
        "dicts",
        "objects",
    ],
)
def test_a_large_container_is_counted(make: Callable[[], object]) -> None:
    """An object that its elements share counts once."""
    value = make()  # only here, because every worker of pytest-xdist collects all parameters
    assert PickleSizer().measure(value).bytes == pytest.approx(
        len(cloudpickle.dumps(value)), rel=0.02
    )


def test_every_node_that_holds_locks_cannot_be_sent() -> None:
    """The first one does not hide the others."""
    locks = [threading.Lock() for _ in range(3000)]
    both = grain.MapDataset.range(8).map(Table(locks)).map(Table(locks))
    reasons = [node.unpicklable for node in read_graph(in_workers(both)).of_kind("Map")]
    assert reasons == ["TypeError: cannot pickle '_thread.lock' object"] * 2


def test_the_sizes_of_the_nodes_add_up_to_grains_pickle() -> None:
    """Nothing is counted twice, and nothing is omitted."""
    base = grain.MapDataset.source(list(range(10_000))).map(Table(np.arange(10_000)))
    dataset = base.shuffle(seed=1).to_iter_dataset().batch(4)
    nodes = read_graph(dataset.mp_prefetch(WORKERS)).nodes
    total = sum(node.sent_bytes or 0 for node in nodes if node.in_worker)
    assert total == pytest.approx(len(cloudpickle.dumps(dataset)), rel=0.02)


def test_arrays_are_counted_without_a_copy() -> None:
    """Counting does not allocate memory of the size of the data."""
    table = Table(np.zeros(1 << 28, np.uint8))
    tracemalloc.start()
    try:
        assert PickleSizer().measure(table).bytes == pytest.approx(1 << 28, rel=0.001)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 1 << 20


@pytest.mark.parametrize("make", [int, Fraction])
def test_small_values_are_counted_up_to_a_bound(
    make: Callable[[int], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the bound, the count is a lower bound: pickling many objects takes time."""
    monkeypatch.setattr(pickled_size, "_MAX_SMALL_BYTES", 1 << 20)
    values = [list(map(make, range(1000))) for _ in range(1000)]
    count = PickleSizer().measure(values).bytes
    assert count is not None
    assert 1 << 20 <= count <= 2 << 20


def test_a_nodes_size_excludes_its_parents() -> None:
    """Data count for the node that holds them, and not in the training process."""
    table, data = np.arange(100_000), [bytes(1000) for _ in range(1000)]
    dataset = grain.MapDataset.source(data).map(Table(table)).to_iter_dataset().batch(4)
    late = dataset.mp_prefetch(WORKERS).map(Table(table))
    above, *_, batch, read, table_map, source = read_graph(late).nodes
    assert table_map.sent_bytes == pytest.approx(table.nbytes, rel=0.01)
    assert source.sent_bytes == pytest.approx(len(cloudpickle.dumps(data)), rel=0.01)
    assert all((node.sent_bytes or 0) < 2000 for node in (batch, read))
    assert (above.sent_bytes, above.unpicklable) == (None, "")


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (threading.Lock(), "TypeError: cannot pickle '_thread.lock' object"),
        (Refuses(), "ValueError: not today"),
        ((letter for letter in "ab"), "TypeError: cannot pickle 'generator' object"),
    ],
    ids=["lock", "refuses", "generator"],
)
def test_the_reason_for_unpicklable_is_one_line(table: object, reason: str) -> None:
    """Only the node that holds the object is unpicklable."""
    dataset = grain.MapDataset.range(8).map(Table(table)).to_iter_dataset().batch(4)
    graph = read_graph(dataset.mp_prefetch(WORKERS))
    (node,) = graph.of_kind("Map")
    assert (node.sent_bytes, node.unpicklable) == (None, reason)
    assert [node.kind for node in graph.nodes if node.unpicklable] == ["Map"]


def test_the_function_that_starts_a_worker_is_counted_as_mp_prefetchs() -> None:
    """The function is sent with the pipeline, and can hold data too."""
    held = np.arange(100_000)

    def start(index: int, count: int) -> None:
        del index, count
        held.sum()

    dataset = grain.MapDataset.range(8).to_iter_dataset().mp_prefetch(WORKERS, start)
    (prefetch,) = read_graph(dataset).of_kind("ProcessPrefetch")
    assert prefetch.sent_bytes == pytest.approx(held.nbytes, rel=0.01)


def test_parents_are_left_out_and_captured_datasets_are_not() -> None:
    """A dataset that a function reads from is data like any other."""
    looked_up = grain.MapDataset.source(np.arange(100_000))
    dataset = grain.MapDataset.range(8).map(lambda element: looked_up[element])
    graph = read_graph(in_workers(dataset))
    assert graph.of_kind("Map")[0].sent_bytes == pytest.approx(800_000, rel=0.01)
    assert len(graph.of_kind("Source")) == 1
