"""Factories whose pipelines are rebuilt with other settings."""

from collections.abc import Callable
from typing import Any

import grain
import numpy as np
import pytest

from netpipe.grain_access.dataset_variants import CannotRebuildError, Variant, build_variant
from netpipe.grain_access.nodes import Node
from netpipe.grain_access.reader import read_graph

Factory = Callable[[], Any]

THREADS = grain.ReadOptions(num_threads=2, prefetch_buffer_size=7)
PREFETCH = grain.MultiprocessingOptions(num_workers=3, per_worker_buffer_size=5)


class Loader(grain.DataLoader):  # type: ignore[misc]  # Grain is not typed for mypy
    """A user's own class of loader."""


def source() -> Any:
    """Twelve numbers."""
    return grain.MapDataset.range(12)


def plain() -> Any:
    """A pipeline read by threads, batched, and loaded by workers."""
    return source().to_iter_dataset(THREADS).batch(4).mp_prefetch(PREFETCH)


def batch_last() -> Any:
    """A pipeline that makes batches in the training process."""
    return source().to_iter_dataset(THREADS).mp_prefetch(PREFETCH, sequential_slice=True).batch(4)


def without_workers() -> Any:
    """A pipeline that only reads and batches."""
    return source().to_iter_dataset(THREADS).batch(4)


def data_loader(kind: type[Any] = grain.DataLoader, workers: int = 2) -> Any:
    """A DataLoader over the twelve numbers."""
    sampler = grain.samplers.IndexSampler(
        num_records=12, shard_options=grain.sharding.NoSharding(), num_epochs=1
    )
    return kind(
        data_source=list(range(12)),
        sampler=sampler,
        operations=[grain.transforms.Batch(4)],
        worker_count=workers,
        worker_buffer_size=3,
    )


def only(dataset: Any, kind: str) -> Node:
    """Return the only node of a kind."""
    (node,) = read_graph(dataset).of_kind(kind)
    return node


def batches(dataset: Any) -> list[list[int]]:
    """Return all batches."""
    return [np.asarray(batch).tolist() for batch in dataset]


IN_ORDER = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


@pytest.mark.parametrize(
    "reading",
    [
        lambda: grain.MapDataset.source(range(4)).to_iter_dataset(THREADS),
        lambda: grain.MapDataset.source(range(4)).to_iter_dataset(read_options=THREADS),
        lambda: grain.MapDataset.source(range(4)).to_iter_dataset(),
        lambda: grain.MapDataset.source(range(4)),
        lambda: source().to_iter_dataset(allow_nones=True),
    ],
)
def test_read_threads_are_replaced(reading: Factory) -> None:
    """The number of threads changes however the call is written, if there is a call at all."""
    dataset = build_variant(reading, Variant(read_threads=0))
    assert only(dataset, "ToIter").parameters["num_threads"] == 0


@pytest.mark.parametrize(
    ("variant", "threads", "held"),
    [
        (Variant(read_buffer=3), 2, 3),
        (Variant(read_buffer=100), 2, 7),
        (Variant(read_threads=16, read_buffer=64), 16, 64),
    ],
)
def test_the_read_buffer_only_shrinks(variant: Variant, threads: int, held: int) -> None:
    """A buffer gets larger only with other threads."""
    parameters = only(build_variant(plain, variant), "ToIter").parameters
    assert (parameters["num_threads"], parameters["prefetch_buffer_size"]) == (threads, held)


def test_workers_are_replaced() -> None:
    """The number of workers changes, and all other arguments of the call are kept."""
    parameters = only(build_variant(batch_last, Variant(workers=2)), "ProcessPrefetch").parameters
    assert parameters == {"num_workers": 2, "per_worker_buffer_size": 5, "sequential_slice": True}
    no_workers = grain.MultiprocessingOptions(num_workers=0)
    made = build_variant(lambda: without_workers().mp_prefetch(no_workers), Variant(workers=2))
    assert only(made, "ProcessPrefetch").parameters["num_workers"] == 2


def test_other_arguments_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """An init function is passed on, given by position or by name."""
    asked = []
    monkeypatch.setattr(
        grain.IterDataset, "mp_prefetch", lambda *given, **named: asked.append((given[1:], named))
    )

    def factory() -> Any:
        source().to_iter_dataset().mp_prefetch(PREFETCH, print, True)
        source().to_iter_dataset().mp_prefetch(options=PREFETCH, worker_init_fn=print)
        source().to_iter_dataset().mp_prefetch()

    build_variant(factory, Variant(workers=2))
    two = grain.MultiprocessingOptions(num_workers=2, per_worker_buffer_size=5)
    assert asked[:2] == [((two, print, True), {}), ((two,), {"worker_init_fn": print})]
    assert asked[2] == ((grain.MultiprocessingOptions(num_workers=2),), {})


def test_without_workers_elements_come_in_order() -> None:
    """With 0 workers everything runs in this process."""
    dataset = build_variant(plain, Variant(workers=0))
    assert not read_graph(dataset).of_kind("ProcessPrefetch")
    assert batches(dataset) == IN_ORDER


@pytest.mark.parametrize("variant", [Variant(), Variant(read_threads=1)])
def test_defaults_stay_grains(variant: Variant) -> None:
    """Settings that a variant does not change stay as the factory made them."""
    dataset = build_variant(lambda: source().to_iter_dataset().mp_prefetch(), variant)
    assert only(dataset, "ProcessPrefetch").parameters["num_workers"] == 10
    dataset = build_variant(plain, Variant(workers=2))
    assert only(dataset, "ToIter").parameters["num_threads"] == 2


@pytest.mark.parametrize("kind", [grain.DataLoader, Loader])
def test_a_data_loader_is_rebuilt(kind: type[Any]) -> None:
    """A DataLoader, or an instance of a subclass, takes other workers and other threads."""
    dataset = build_variant(lambda: data_loader(kind), Variant(workers=3, read_threads=0))
    assert only(dataset, "ProcessPrefetch").parameters["num_workers"] == 3
    assert only(dataset, "ProcessPrefetch").parameters["per_worker_buffer_size"] == 3
    assert only(dataset, "ToIter").parameters["num_threads"] == 0
    assert batches(build_variant(lambda: data_loader(kind), Variant(workers=0))) == IN_ORDER
    dataset = build_variant(lambda: data_loader(kind, workers=0), Variant(workers=3))
    assert only(dataset, "ProcessPrefetch").parameters["num_workers"] == 3
    alone = build_variant(lambda: data_loader(kind, workers=0), Variant(read_threads=0))
    assert only(alone, "ToIter").parameters["num_threads"] == 0
    assert batches(alone) == IN_ORDER


def test_all_datasets_of_a_factory_are_rebuilt() -> None:
    """Each mixed branch has the new settings."""
    dataset = build_variant(
        lambda: grain.IterDataset.mix([plain(), plain()]), Variant(workers=2, read_threads=0)
    )
    graph = read_graph(dataset)
    assert [node.parameters["num_workers"] for node in graph.of_kind("ProcessPrefetch")] == [2, 2]
    assert [node.parameters["num_threads"] for node in graph.of_kind("ToIter")] == [0, 0]


def test_a_thread_prefetch_is_added_at_the_end() -> None:
    """The trainer gets batches that a thread has made ahead, and they are the same batches."""
    dataset = build_variant(without_workers, Variant(thread_prefetch=True))
    assert read_graph(dataset).nodes[0].kind == "ThreadPrefetch"
    assert batches(dataset) == IN_ORDER


def test_workers_move_to_the_end() -> None:
    """The batch moves into the workers, which make only a few batches ahead."""
    dataset = build_variant(batch_last, Variant(workers_last=True))
    assert only(dataset, "Batch").in_worker
    parameters = only(dataset, "ProcessPrefetch").parameters
    assert parameters == {"num_workers": 3, "per_worker_buffer_size": 2, "sequential_slice": True}
    # A call without options means ten workers.
    dataset = build_variant(
        lambda: source().to_iter_dataset().mp_prefetch(), Variant(workers_last=True)
    )
    assert only(dataset, "ProcessPrefetch").parameters["num_workers"] == 10
    # A pipeline without workers gets the requested number.
    dataset = build_variant(without_workers, Variant(workers=2, workers_last=True))
    assert only(dataset, "ProcessPrefetch").parameters["num_workers"] == 2
    assert only(dataset, "Batch").in_worker


def test_grain_is_as_before() -> None:
    """No replacement stays, whether the factory returns or raises."""

    def methods() -> list[object]:
        return [
            vars(grain.IterDataset)["mp_prefetch"],
            vars(grain.MapDataset)["to_iter_dataset"],
            vars(grain.DataLoader)["__init__"],
        ]

    def broken() -> Any:
        assert methods() != before
        raise ValueError("no data")

    before = methods()
    build_variant(plain, Variant(workers=0))
    assert methods() == before
    with pytest.raises(ValueError, match="no data"):
        build_variant(broken, Variant(workers=0))
    assert methods() == before


@pytest.mark.parametrize(
    ("variant", "call"),
    [
        (Variant(workers=0), "mp_prefetch"),
        (Variant(read_threads=0), "to_iter_dataset"),
        (Variant(read_buffer=1), "to_iter_dataset"),
        (Variant(workers=2, workers_last=True), "to_iter_dataset"),
    ],
)
def test_a_dataset_made_before_cannot_be_rebuilt(variant: Variant, call: str) -> None:
    """A factory that returns an existing dataset would be measured unchanged."""
    made = plain()
    with pytest.raises(CannotRebuildError, match=rf"{call} .* new dataset"):
        build_variant(lambda: made, variant)


@pytest.mark.parametrize("variant", [Variant(workers=0), Variant(read_threads=0)])
def test_an_elastic_iterator_cannot_be_rebuilt(variant: Variant) -> None:
    """The settings of an ElasticIterator are its own, so making a new one would not help."""
    options = grain.MultiprocessingOptions(num_workers=2)

    def elastic() -> Any:
        return grain.experimental.ElasticIterator(
            source(), 4, grain.sharding.NoSharding(), multiprocessing_options=options
        )

    with pytest.raises(CannotRebuildError, match=r"those of ElasticIterator .* cannot"):
        build_variant(elastic, variant)


def test_a_function_that_workers_start_with_keeps_a_worker() -> None:
    """One worker stays for an init function if the variant asks for it, however it was given."""
    dataset = source().to_iter_dataset()
    alone = Variant(workers=0, keeps_init=True)
    for make in (
        lambda: dataset.mp_prefetch(PREFETCH, print),
        lambda: dataset.mp_prefetch(PREFETCH, worker_init_fn=print),
    ):
        kept = only(build_variant(make, alone), "ProcessPrefetch")
        assert kept.parameters["num_workers"] == 1
        assert not read_graph(build_variant(make, Variant(workers=0))).of_kind("ProcessPrefetch")
    plainly_made = build_variant(lambda: dataset.mp_prefetch(PREFETCH), alone)
    assert not read_graph(plainly_made).of_kind("ProcessPrefetch")


def test_a_data_loader_takes_no_prefetch() -> None:
    """Grain adds nothing after a DataLoader: the message names the object found."""
    with pytest.raises(CannotRebuildError, match="found DataLoader"):
        build_variant(data_loader, Variant(thread_prefetch=True))


def test_variants_join() -> None:
    """Two changes together are both; 0 is a change too."""
    joined = Variant(workers=3, thread_prefetch=True) | Variant(read_threads=0)
    assert joined == Variant(workers=3, read_threads=0, thread_prefetch=True)
    assert Variant(workers=3) | Variant(workers=0) == Variant(workers=0)
    assert Variant(workers_last=True) | Variant() == Variant(workers_last=True)
