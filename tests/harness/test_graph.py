"""Reading the graphs of real Grain pipelines."""

import subprocess
import sys
from functools import partial
from typing import Any

import grain
import jax
import pytest

from netpipe.harness.graph import _SHAPES, Graph, read_graph


class Unreadable:
    """A source whose elements must not be read."""

    def __len__(self) -> int:
        """Claim some elements."""
        return 8

    def __getitem__(self, index: int) -> int:
        """Fail the test."""
        raise AssertionError(f"element {index} was read")


class Double(grain.transforms.Map):  # type: ignore[misc]  # grain is untyped
    """A transform object, not a function."""

    def map(self, element: int) -> int:
        """Return twice the element."""
        return 2 * element


def increment(element: int) -> int:
    """Return the element's successor."""
    return element + 1


def elements() -> Any:
    """A MapDataset whose elements cannot be read."""
    return grain.MapDataset.source(Unreadable())


def in_workers(dataset: Any, workers: int = 2) -> Any:
    """The dataset behind mp_prefetch."""
    return dataset.mp_prefetch(grain.MultiprocessingOptions(workers, per_worker_buffer_size=3))


def kinds(graph: Graph) -> list[str]:
    """Kinds of all nodes, without the options that Grain adds."""
    return [node.kind for node in graph.nodes if node.kind != "Options"]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_mp_prefetch_is_one_node_with_the_users_graph_in_workers(workers: int) -> None:
    """However many workers share it, each node of the user stands there once."""
    below = elements().shuffle(seed=1).to_iter_dataset().batch(4)
    graph = read_graph(in_workers(below, workers).map(increment))
    assert kinds(graph) == ["Map", "ProcessPrefetch", "Batch", "ToIter", "Shuffle", "Source"]
    assert [node.in_worker for node in graph.nodes if node.kind != "Options"] == [False] * 2 + [
        True
    ] * 4
    (prefetch,) = graph.of_kind("ProcessPrefetch")
    assert prefetch.parameters == {"num_workers": workers, "per_worker_buffer_size": 3}


def test_zero_workers_leave_no_node() -> None:
    """`mp_prefetch` with no workers does nothing, and the graph says so."""
    graph = read_graph(in_workers(elements().to_iter_dataset(), 0))
    assert kinds(graph) == ["ToIter", "Source"]


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
    here = __name__
    assert (batch.parameters["batch_size"], batch.parameters["drop_remainder"]) == (4, True)
    assert (read.parameters["num_threads"], read.parameters["prefetch_buffer_size"]) == (3, 5)
    assert kept.parameters["transform"] == f"{here}.increment"
    assert doubled.parameters["transform"] == f"{here}.Double"
    assert shuffle.parameters == {"seed": 7}
    assert source.parameters == {"source": f"{here}.Unreadable"}


def test_mixed_branches_keep_their_processes() -> None:
    """Each branch of a mix is followed, in workers or not."""
    base = elements()
    mixed = grain.IterDataset.mix([in_workers(base.to_iter_dataset()), base.to_iter_dataset()])
    graph = read_graph(mixed)
    (mix,) = graph.of_kind("Mix")
    assert len(mix.parents) == 2
    assert [node.in_worker for node in graph.of_kind("Source")] == [True, False]
    assert [node.in_worker for node in graph.of_kind("ToIter")] == [True, False]


def test_a_shared_node_stands_there_once() -> None:
    """Two branches over the same dataset meet in one node."""
    base = elements().map(increment)
    graph = read_graph(grain.MapDataset.concatenate([base, base.shuffle(seed=1)]))
    assert kinds(graph) == ["Concatenate", "Map", "Source", "Shuffle"]
    (below,) = (one for one in graph.nodes if one.kind == "Shuffle")
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


def test_an_unknown_class_keeps_its_name_and_its_parents() -> None:
    """A dataset of the user's own is a node like any other, whose kind says it is unknown."""

    class Reversed(grain.MapDataset):  # type: ignore[misc]  # grain is untyped
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> int:
            raise AssertionError(index)

    graph = read_graph(Reversed(elements()).map(increment))
    assert kinds(graph) == ["Map", "Unknown:Reversed", "Source"]


def test_a_class_derived_from_grains_is_what_it_derives_from() -> None:
    """A user's own kind of shuffle is a shuffle."""
    shuffle = type(elements().shuffle(seed=1))
    graph = read_graph(type("MyShuffle", (shuffle,), {})(elements(), seed=5))
    assert kinds(graph) == ["Shuffle", "Source"]


@pytest.mark.parametrize("other", [iter([1]), [1], None, (x for x in "ab")])
def test_what_is_no_dataset_has_no_nodes(other: object) -> None:
    """A hand-built loader gives an empty graph."""
    assert read_graph(other) == Graph()


def test_device_put_is_recognised_in_a_function() -> None:
    """A map that puts elements on a device is told from one that does not."""
    dataset = elements().to_iter_dataset()
    device = jax.devices()[0]
    put = [
        jax.device_put,
        partial(jax.device_put, device=device),
        lambda element: jax.device_put(element, device),
        lambda element: jax.tree.map(lambda leaf: jax.device_put(leaf, device), element),
    ]
    assert all(read_graph(dataset.map(one)).nodes[0].parameters["device_put"] for one in put)
    assert not read_graph(dataset.map(increment)).nodes[0].parameters["device_put"]
    library = read_graph(grain.experimental.device_put(dataset, device))
    assert library.of_kind("Map")[0].parameters["device_put"]


def test_every_dataset_class_of_the_installed_grain_has_a_kind() -> None:
    """An upgrade of Grain that adds a class is noticed here, by its name."""

    def below(kind: type) -> set[str]:
        children: list[type] = kind.__subclasses__()
        grains = [one for one in children if one.__module__.startswith("grain.")]
        return {one.__name__ for one in grains}.union(*map(below, grains))

    folded_or_helping = {
        "_ElementSpecFromTransformMapDatasetMixin",
        "_ElementSpecFromTransformIterDatasetMixin",
        "_OutputIterDataset",  # wraps iterators, never part of a graph
        "ProcessPrefetchIterDataset",  # folded into the node of mp_prefetch
        "FirstFitPackIterDataset",  # a PackIterDataset, as the next one
        "BestFitPackIterDataset",
    }
    known = folded_or_helping.union(_SHAPES)
    assert below(grain.MapDataset) | below(grain.IterDataset) <= known


def test_reading_needs_no_grain() -> None:
    """The module itself imports neither grain nor jax."""
    program = "import sys, netpipe.harness.ordering; assert not {'grain', 'jax'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
