"""The timing of every call of a Grain pipeline's nodes: the counts, never the times."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import grain
import pytest

from netpipe.diagnosis.experiments import instrumented_stages
from netpipe.diagnosis.experiments.instrumented_stages import (
    Spent,
    Timing,
    measure_overhead,
    observed,
    without_overhead,
)
from netpipe.grain_access.reader import collect_datasets, read_graph
from tests.diagnosis import loaders
from tests.diagnosis.loaders import (
    ALONE,
    Counted,
    Generating,
    Numbers,
    Plain,
    Streaming,
    Tens,
    double,
)

MAP = "Map of tests.diagnosis.loaders.double"
KINDS = [
    owner
    for kind in (grain.MapDataset, grain.IterDataset, grain.DatasetIterator)
    for owner in (kind, *kind.__subclasses__())
]


def replaced() -> list[str]:
    """Return the methods of Grain's classes that are replaced, below Grain's own wrappers."""
    return [
        f"{kind.__name__}.{name}"
        for kind in KINDS
        for name in ("__getitem__", "__iter__", "__next__")
        if is_ours(vars(kind).get(name))
    ]


@contextmanager
def timed(numbered: Mapping[int, Any]) -> Iterator[Timing]:
    """Time the calls of numbered datasets within the context."""
    timing = Timing()
    with observed(numbered, timing.call):
        yield timing


def is_ours(method: Any) -> bool:
    """Return whether a method, or one that it wraps, is a timing one."""
    while method is not None:
        code = getattr(method, "__code__", None)
        if code and code.co_filename == instrumented_stages.__file__:
            return True
        method = getattr(method, "__wrapped__", None)
    return False


@pytest.fixture(autouse=True)
def _classes_are_restored() -> Iterator[None]:
    """Check that every test restores Grain's classes."""
    yield
    assert replaced() == []


def counted(make: Callable[[], Any]) -> dict[str, tuple[int, int]]:
    """Return the calls of each node while a pipeline is read to its end, and those below."""
    dataset = make()
    names = {node.id: str(node) for node in read_graph(dataset).nodes}
    with timed(collect_datasets(dataset)) as timing:
        assert list(dataset)
    return {
        names[number]: (spent.calls, spent.calls_below) for number, spent in timing.spent.items()
    }


def test_every_call_is_counted() -> None:
    """The nodes of twelve elements in three batches have their own calls and those below."""
    calls = counted(loaders.plain)
    assert calls["Source"] == (13, 0)  # one for the length
    assert calls[MAP] == (12, 12)
    assert calls["Batch"][0] in (3, 4)  # one for the end
    assert calls["Batch"][1] == calls["ToIter"][0] == 13
    assert calls["ToIter"][1] == 12


def test_threads_do_not_mix_their_calls() -> None:
    """Elements that threads read at the same time count for the nodes that they called."""
    calls = counted(
        lambda: grain.MapDataset.source(Numbers()).map(double).to_iter_dataset(loaders.THREADS)
    )
    assert calls["Source"] == (13, 0)
    assert calls[MAP] == (12, 12)


@pytest.mark.parametrize(("kind", "calls"), [(Plain, 3), (Generating, 13)])
def test_an_iterator_that_is_not_grains_is_timed(kind: type, calls: int) -> None:
    """The iterator is wrapped instead of changing its class, and keeps its attributes."""
    assert counted(kind) == {f"Unknown:{kind.__name__}": (calls, 0)}
    assert not hasattr(Tens.__next__, "__wrapped__")
    with timed({0: (dataset := Plain())}):
        iterator = iter(dataset)
    assert iterator._next == 0
    assert not hasattr(iterator, "get_state")


def test_an_iterator_of_the_users_own_is_timed() -> None:
    """The iterator's class derives from Grain's, and is changed like Grain's own."""
    calls = counted(lambda: Streaming().map(double).batch(4))
    assert calls["Unknown:Streaming"] == (13, 0)
    assert calls[MAP] == (13, 13)
    assert vars(Counted)["__next__"].__qualname__ == "Counted.__next__"
    assert not hasattr(Counted.__next__, "__wrapped__")


class Twice(grain.experimental.FlatMapTransform):  # type: ignore[misc]
    """A flat map that gives each element twice."""

    max_fan_out = 2

    def flat_map(self, element: int) -> list[int]:
        """Return an element twice."""
        return [element, element]


def test_calls_below_differ_from_own_calls() -> None:
    """A filter calls more than it returns, and a flat map less."""
    numbers = grain.MapDataset.source(Numbers()).to_iter_dataset(ALONE)
    filtering = counted(lambda: numbers.filter(lambda number: number % 3 == 0).batch(4))
    doubling = counted(lambda: grain.experimental.FlatMapIterDataset(numbers, Twice()))
    assert (5, 13) in [counts for name, counts in filtering.items() if name.startswith("Filter")]
    ((own, below),) = (counts for name, counts in doubling.items() if name.startswith("FlatMap"))
    assert own >= 24
    assert below == 13


def test_sources_of_a_mix_have_their_own_counts() -> None:
    """Two datasets of the same class are timed separately."""
    dataset = loaders.mixed()
    graph = read_graph(dataset)
    with timed(collect_datasets(dataset)) as timing:
        assert list(dataset)
    assert [timing.spent[node.id].calls for node in graph.of_kind("Source")] == [12, 12]
    (mix,) = graph.of_kind("Mix")
    assert timing.spent[mix.id].calls_below == 24


class Derived(grain.MapDataset):  # type: ignore[misc]
    """A dataset of the user's own."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: Any) -> int:
        return int(index)


class DerivedAgain(Derived):
    """A dataset whose method calls its base class."""

    def __getitem__(self, index: Any) -> int:
        return super().__getitem__(index) + 1


class Inherits(Derived):
    """A dataset without a method of its own."""


def test_a_call_of_the_base_class_is_not_counted_again() -> None:
    """Both classes are replaced, and a call of a dataset counts once."""
    both = grain.MapDataset.mix([Derived(), DerivedAgain()], [0.5, 0.5])
    with timed(collect_datasets(both)) as timing:
        assert [both[index] for index in range(4)] == [0, 1, 1, 2]
    counts = sorted((spent.calls, spent.calls_below) for spent in timing.spent.values())
    assert counts == [(2, 0), (2, 0), (4, 4)]


def test_an_inherited_method_stays_inherited() -> None:
    """A class without a method of its own has none afterwards."""
    dataset = Inherits()
    with timed({0: dataset}) as timing:
        assert dataset[3] == 3
        assert "__getitem__" in vars(Inherits)
    assert "__getitem__" not in vars(Inherits)
    assert timing.spent[0].calls == 1


def test_only_elements_of_the_numbered_datasets_are_timed() -> None:
    """Other datasets of the same classes have no counts, nor do slices, which are datasets."""
    dataset, numbers = loaders.plain(), grain.MapDataset.source(Numbers())
    with timed(collect_datasets(dataset)) as timing:
        assert {"SourceMapDataset.__getitem__", "BatchIterDataset.__iter__"} <= set(replaced())
        list(loaders.plain())
    assert not timing.spent
    with timed(collect_datasets(numbers)) as timing:
        assert len(numbers[2:5]) == 3
    assert timing.spent[0].calls == 1  # for the length of the whole


def test_the_length_of_a_source_is_timed() -> None:
    """Grain's shuffle asks for a length with every element, through the nodes between."""
    dataset = grain.MapDataset.source(Numbers()).map(double).shuffle(seed=1)
    with timed(collect_datasets(dataset)) as timing:
        assert {int(dataset[0]), int(dataset[1])} <= set(range(0, 24, 2))
    (source,) = read_graph(dataset).of_kind("Source")
    assert timing.spent[source.id].calls >= 4


def test_an_error_of_the_users_code_propagates() -> None:
    """The failed call counts."""

    def fail(_: int) -> int:
        raise OSError("gone")

    dataset = grain.MapDataset.source(Numbers()).map(fail)
    with pytest.raises(OSError, match="gone"), timed(collect_datasets(dataset)) as timing:
        dataset[0]
    assert timing.spent[0].calls == 1
    assert timing._thread.running is None


def test_an_iterator_outlives_its_timing() -> None:
    """The iterator still gives elements, which no longer count."""
    dataset = loaders.plain()
    with timed(collect_datasets(dataset)) as timing:
        iterator = iter(dataset)
        next(iterator)
    before = {number: spent.calls for number, spent in timing.spent.items()}
    assert len(list(iterator)) == 2
    assert {number: spent.calls for number, spent in timing.spent.items()} == before


def test_overhead_is_subtracted_per_call() -> None:
    """Callee and caller have an overhead of their own; no time becomes negative."""
    own, caller = Spent(0.001, 0.0005, calls=1), Spent(0.010, 0.002, calls_below=1)
    bare = without_overhead(Spent(1.0, 0.5, calls=10, calls_below=20), own, caller)
    assert bare.wall_s == pytest.approx(1.0 - 0.010 - 0.200)
    assert bare.cpu_s == pytest.approx(0.5 - 0.005 - 0.040)
    nothing = without_overhead(Spent(0.1, 0.001, calls=10, calls_below=20), own, caller)
    assert (nothing.wall_s, nothing.cpu_s) == (0.0, 0.0)
    assert all(found.wall_s > 0 for found in measure_overhead())
