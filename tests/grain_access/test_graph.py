"""Reading the graphs of real Grain pipelines."""

import subprocess
import sys
from typing import Any

import grain
import pytest

from netpipe.grain_access.nodes import Graph
from netpipe.grain_access.reader import read_graph
from tests.linting.rules.linting import Unreadable, increment
from tests.linting.rules.linting import source as elements


class Untold(Unreadable):
    """A source that raises when asked for its length."""

    def __len__(self) -> int:
        """Fail."""
        raise OSError


class Double(grain.transforms.Map):  # type: ignore[misc]  # grain is untyped
    """A transform object, not a function."""

    def map(self, element: int) -> int:
        """Return twice the element."""
        return 2 * element


def in_workers(dataset: Any, workers: int = 2) -> Any:
    """The dataset behind mp_prefetch."""
    return dataset.mp_prefetch(grain.MultiprocessingOptions(workers, per_worker_buffer_size=3))


def kinds(graph: Graph) -> list[str]:
    """Kinds of all nodes, without the options that Grain adds."""
    return [node.kind for node in graph.nodes if node.kind != "Options"]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_mp_prefetch_is_one_node_with_the_users_graph_in_workers(workers: int) -> None:
    """Each of the user's nodes appears once, however many workers there are."""
    below = elements().shuffle(seed=1).to_iter_dataset().batch(4)
    graph = read_graph(in_workers(below, workers).map(increment))
    assert kinds(graph) == ["Map", "ProcessPrefetch", "Batch", "ToIter", "Shuffle", "Source"]
    in_worker = [node.in_worker for node in graph.nodes if node.kind != "Options"]
    assert in_worker == [False] * 2 + [True] * 4
    (prefetch,) = graph.of_kind("ProcessPrefetch")
    assert prefetch.parameters == {
        "num_workers": workers,
        "per_worker_buffer_size": 3,
        "sequential_slice": False,
    }


def test_parameters_are_plain_values() -> None:
    """Settings keep Grain's names; functions and objects are named."""
    pipeline = (
        elements()
        .shuffle(seed=7)
        .map(Double())
        .filter(increment)
        .to_iter_dataset(grain.ReadOptions(num_threads=3, prefetch_buffer_size=5))
        .batch(4, drop_remainder=True)
    )
    batch, read, kept, doubled, shuffle, source = read_graph(pipeline).nodes
    shared = increment.__module__
    assert (batch.parameters["batch_size"], batch.parameters["drop_remainder"]) == (4, True)
    assert (read.parameters["num_threads"], read.parameters["prefetch_buffer_size"]) == (3, 5)
    assert kept.parameters["transform"] == f"{shared}.increment"
    assert doubled.parameters["transform"] == f"{__name__}.Double"
    assert shuffle.parameters == {"seed": 7}
    assert source.parameters == {"source": f"{shared}.Unreadable", "length": 8}


def test_mixed_branches_keep_their_processes() -> None:
    """Each branch of a mix is followed, in workers or not."""
    base = elements()
    mixed = grain.IterDataset.mix([in_workers(base.to_iter_dataset()), base.to_iter_dataset()])
    graph = read_graph(mixed)
    (mix,) = graph.of_kind("Mix")
    assert len(mix.parents) == 2
    assert [node.in_worker for node in graph.of_kind("Source")] == [True, False]
    assert [node.in_worker for node in graph.of_kind("ToIter")] == [True, False]


def test_a_shared_node_appears_once() -> None:
    """Two branches that read the same dataset share its node."""
    base = elements().map(increment)
    graph = read_graph(grain.MapDataset.concatenate([base, base.shuffle(seed=1)]))
    assert kinds(graph) == ["Concatenate", "Map", "Source", "Shuffle"]
    (below,) = graph.of_kind("Shuffle")
    assert below.parents == (graph.of_kind("Map")[0].id,)


def test_zip_and_interleave_are_followed() -> None:
    """Every input is a parent; a lazy dataset of datasets is one parent, and is not read."""
    one, other = elements().to_iter_dataset(), elements().to_iter_dataset()
    zipped = read_graph(grain.experimental.ZipIterDataset([one, other]))
    assert kinds(zipped) == ["Zip", "ToIter", "Source", "ToIter", "Source"]
    listed = grain.experimental.InterleaveIterDataset([one, other], cycle_length=2)
    assert kinds(read_graph(listed)) == ["Interleave", "ToIter", "Source", "ToIter", "Source"]
    lazy = grain.experimental.InterleaveIterDataset(elements().map(increment), cycle_length=2)
    assert kinds(read_graph(lazy)) == ["Interleave", "Map", "Source"]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_is_read_through_its_dataset(workers: int) -> None:
    """A DataLoader's operations are nodes, in workers if it has any."""
    loader = grain.DataLoader(
        data_source=Unreadable(),
        sampler=grain.samplers.IndexSampler(8, grain.sharding.NoSharding(), seed=0),
        operations=[Double(), grain.transforms.Batch(2)],
        worker_count=workers,
    )
    graph = read_graph(loader)
    assert kinds(graph)[0] == "DataLoader"
    assert [node.in_worker for node in graph.of_kind("Batch", "Source")] == [workers > 0] * 2
    assert len(graph.of_kind("ProcessPrefetch")) == (workers > 0)
    assert graph.nodes[0].parameters == {
        "num_workers": workers,
        "per_worker_buffer_size": 1,
        "enable_profiling": False,
    }


@pytest.mark.parametrize(
    ("sampler", "settings"),
    [
        (
            grain.samplers.IndexSampler(8, shuffle=True, seed=3),
            {"num_records": 8, "shuffle": True, "num_epochs": None, "seed": 3},
        ),
        (
            grain.samplers.IndexSampler(8, num_epochs=2),
            {"num_records": 8, "shuffle": False, "num_epochs": 2, "seed": None, "length": 16},
        ),
        (grain.samplers.SequentialSampler(8), {"num_records": 8, "seed": None, "length": 8}),
    ],
)
def test_a_sampler_shows_its_order_and_its_end(sampler: Any, settings: dict[str, object]) -> None:
    """The settings of Grain's own samplers say whether elements are shuffled and when they end."""
    loader = grain.DataLoader(data_source=Unreadable(), sampler=sampler)
    (node,) = read_graph(loader).of_kind("Sampler")
    assert settings.items() <= node.parameters.items()


def test_a_sequential_slice_is_a_setting() -> None:
    """Workers that read contiguous slices differ from workers that take turns."""
    options = grain.MultiprocessingOptions(num_workers=2)
    dataset = elements().to_iter_dataset().mp_prefetch(options, sequential_slice=True)
    (prefetch,) = read_graph(dataset).of_kind("ProcessPrefetch")
    assert prefetch.parameters["sequential_slice"] is True


@pytest.mark.parametrize(
    ("workers", "expected"),
    [(None, []), (0, ["NoWorkers"]), (2, ["ProcessPrefetch"])],
)
def test_an_elastic_iterator_shows_its_workers(workers: int | None, expected: list[str]) -> None:
    """An ElasticIterator batches and reads in the workers that it starts when it is iterated."""
    options = None if workers is None else grain.MultiprocessingOptions(num_workers=workers)
    elastic = grain.experimental.ElasticIterator(
        elements().shuffle(seed=1), 4, grain.sharding.NoSharding(), multiprocessing_options=options
    )
    graph = read_graph(elastic)
    assert kinds(graph) == [*expected, "Elastic", "Shuffle", "Source"]
    assert [node.in_worker for node in graph.of_kind("Elastic", "Source")] == [bool(workers)] * 2
    (node,) = graph.of_kind("Elastic")
    assert (node.parameters["global_batch_size"], node.parameters["num_threads"]) == (4, 16)


@pytest.mark.parametrize(("threads", "sliced"), [(1, []), (2, ["Slice"])])
def test_multithread_prefetch_is_one_node_in_the_training_process(
    threads: int, sliced: list[str]
) -> None:
    """The threads of multithread_prefetch read slices of one graph, which appears once."""
    below = elements().to_iter_dataset().batch(2)
    dataset = grain.experimental.multithread_prefetch(below, num_threads=threads, buffer_size=3)
    graph = read_graph(dataset)
    assert kinds(graph) == ["MultithreadPrefetch", "Batch", "ToIter", *sliced, "Source"]
    assert not any(node.in_worker for node in graph.nodes)
    assert graph.of_kind("MultithreadPrefetch")[0].parameters == {
        "num_threads": threads,
        "buffer_size": 3,
    }


def test_a_map_dataset_is_read_as_it_is() -> None:
    """Grain's default iteration is not a node; random access ends at to_iter_dataset."""
    assert [node.random_access for node in read_graph(elements().batch(2)).nodes] == [True, True]
    stream = elements().batch(2).to_iter_dataset().map(increment)
    assert [node.random_access for node in read_graph(stream).nodes] == [False, False, True, True]


@pytest.mark.parametrize(
    ("dataset", "length"),
    [
        (grain.MapDataset.range(2, 9, 3), 3),
        (elements(), 8),
        (grain.MapDataset.source(Untold()), None),
    ],
)
def test_the_length_of_a_source_is_shown_if_it_tells(dataset: Any, length: int | None) -> None:
    """A source whose length raises has no length."""
    (source,) = read_graph(dataset).nodes
    assert source.parameters.get("length") == length


def test_a_source_in_memory_is_named_and_not_shown() -> None:
    """The user's data is not a setting; a dataset that is a source is followed."""
    (source,) = read_graph(grain.MapDataset.source([1, 2, 3])).nodes
    assert source.parameters == {"source": "builtins.list", "length": 3}
    graph = read_graph(grain.MapDataset.source(elements().shuffle(seed=1)))
    assert kinds(graph) == ["Source", "Shuffle", "Source"]


def test_attributes_that_raise_are_left_out() -> None:
    """Neither a property that raises nor parents of an odd type prevent reading the rest."""

    class Odd(grain.IterDataset):  # type: ignore[misc]  # grain is untyped
        parents = 7

        def __init__(self) -> None:
            pass

        def __iter__(self) -> Any:
            raise AssertionError

        def __getattr__(self, name: str) -> Any:
            raise RuntimeError(name)

        @property
        def _ds(self) -> Any:
            raise ZeroDivisionError

    below = elements().to_iter_dataset()
    mixed = grain.experimental.ZipIterDataset([below, below])
    mixed._parents = (Odd(), below)
    assert kinds(read_graph(mixed)) == ["Zip", "Unknown:Odd", "ToIter", "Source"]
    assert kinds(read_graph(Odd())) == ["Unknown:Odd"]


def test_a_dataset_that_reads_itself_is_read_once() -> None:
    """A cycle is followed once."""
    dataset = elements().map(increment)
    dataset._parents = (dataset,)
    (node,) = read_graph(dataset).nodes
    assert node.parents == (0,)


def test_an_unknown_class_keeps_its_name_and_its_parents() -> None:
    """The kind says that a dataset of the user's own is unknown, unless its base is known."""

    class Reversed(grain.MapDataset):  # type: ignore[misc]  # grain is untyped
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> int:
            raise AssertionError(index)

    graph = read_graph(Reversed(elements()).map(increment))
    assert kinds(graph) == ["Map", "Unknown:Reversed", "Source"]

    # A user's own kind of shuffle is a shuffle.
    shuffle = type(elements().shuffle(seed=1))
    graph = read_graph(type("MyShuffle", (shuffle,), {})(elements(), seed=5))
    assert kinds(graph) == ["Shuffle", "Source"]


@pytest.mark.parametrize("other", [iter([1]), [1], None, (x for x in "ab")])
def test_other_objects_have_no_nodes(other: object) -> None:
    """A hand-built loader gives an empty graph."""
    assert read_graph(other) == Graph()


def test_reading_needs_no_grain() -> None:
    """The module itself imports neither grain nor jax."""
    program = "import sys, netpipe.linting.linter; assert not {'grain', 'jax'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
