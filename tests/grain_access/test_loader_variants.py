"""Variants of a loader."""

import os
import threading
from collections.abc import Callable
from typing import Any

import grain
import numpy as np
import pytest

from netpipe.errors import MisuseError
from netpipe.grain_access.dataset_variants import Variant, build_variant, open_iterator
from netpipe.grain_access.loader_variants import (
    OneThread,
    choose_workers,
    count_read_buffer,
    count_threads,
    single_thread_variant,
    with_tiny_payload,
    with_workers,
)
from netpipe.grain_access.nodes import Graph
from netpipe.grain_access.reader import read_graph
from netpipe.grain_access.worker_start import let_grain_start_workers
from netpipe.jobs.processes import ProcessTree
from tests.diagnosis import loaders

Factory = Callable[[], Any]

IN_ORDER = [[0, 2, 4, 6], [8, 10, 12, 14], [16, 18, 20, 22]]


def batches(dataset: Any, most: int = 3) -> list[Any]:
    """Return the first batches."""
    with open_iterator(dataset) as iterator:
        return [np.asarray(batch).tolist() for batch, _ in zip(iterator, range(most), strict=False)]


@pytest.fixture(autouse=True)
def _workers() -> None:
    let_grain_start_workers()


@pytest.mark.parametrize(
    ("loader", "expected"),
    [
        (loaders.plain, IN_ORDER),
        (loaders.threaded, IN_ORDER),
        (loaders.with_worker, IN_ORDER),
        (loaders.random_access, IN_ORDER),
        (loaders.shared, IN_ORDER),
        (loaders.data_loader, [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]),
        (lambda: loaders.data_loader(workers=1), [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]),
    ],
)
def test_a_single_thread_run_gives_the_same_batches(loader: Factory, expected: Any) -> None:
    """The run has no worker, and no thread besides the one that pulls."""
    single_thread, _ = single_thread_variant(loader)
    made = single_thread()
    assert isinstance(made, OneThread)
    threads, processes = set(threading.enumerate()), len(ProcessTree().pids)
    with open_iterator(made) as iterator:
        found = [np.asarray(next(iterator)).tolist() for _ in range(3)]
        assert set(threading.enumerate()) <= threads
        assert len(ProcessTree().pids) <= processes
    assert found == expected


def test_a_single_thread_run_makes_batches_in_the_pulling_thread() -> None:
    """Reader threads and prefetching threads are gone."""
    makers: set[int] = set()

    def seen(number: int) -> int:
        makers.add(threading.get_ident())
        return number

    def loader() -> Any:
        numbers = grain.MapDataset.range(12).map(seen).to_iter_dataset(loaders.THREADS)
        dataset = numbers.map(seen).batch(4)
        return grain.experimental.ThreadPrefetchIterDataset(dataset, prefetch_buffer_size=2)

    single_thread, _ = single_thread_variant(loader)
    assert len(batches(single_thread())) == 3
    assert makers == {threading.get_ident()}


def test_the_graph_is_of_the_loader_as_it_is() -> None:
    """The graph has the workers, and the lines that made it."""
    _, graph = single_thread_variant(loaders.with_worker)
    assert graph.of_kind("ProcessPrefetch")
    assert "loaders.py:" in graph.of_kind("Batch")[0].made_at


@pytest.mark.parametrize("loader", [loaders.raising_late, list, loaders.the_same])
def test_what_cannot_be_rebuilt_stays_as_it_is(loader: Factory) -> None:
    """Neither plain Python nor a dataset that the loader made only once can be rebuilt."""
    assert single_thread_variant(loader)[0] is loader


def test_a_loader_that_takes_workers_runs_without_them() -> None:
    """A loader that is not Grain's is called with 0 workers; its usual workers are known."""
    single_thread, graph = single_thread_variant(loaders.taking_workers)
    assert list(single_thread()) == ["0 workers"]
    assert (graph.nodes, graph.other_workers) == ((), 3)
    assert list(with_workers(loaders.taking_workers, graph, 5)()) == ["5 workers"]


def test_the_workers_of_any_pipeline_can_be_chosen() -> None:
    """Workers are set by the parameter, or in a Grain pipeline; otherwise the target is named."""
    assert list(choose_workers(loaders.taking_workers, 2, "x")()) == ["2 workers"]
    made = read_graph(choose_workers(loaders.plain, 2, "x")())
    assert made.of_kind("ProcessPrefetch")[0].parameters["num_workers"] == 2
    threads = count_threads(read_graph(loaders.threaded()))
    assert count_threads(read_graph(choose_workers(loaders.threaded, 2, "x")())) == threads > 0
    assert choose_workers(loaders.plain, 0, "x") is loaders.plain
    with pytest.raises(MisuseError, match=r"^a\.py:b: must have a parameter `workers`"):
        choose_workers(list, 2, "a.py:b")


def test_a_prefetching_thread_is_passed_over_and_comes_back() -> None:
    """Grain's class is restored once the run is iterated."""
    before = vars(grain.experimental.ThreadPrefetchIterDataset)["__iter__"]
    single_thread, _ = single_thread_variant(loaders.threaded)
    iter(single_thread())
    assert vars(grain.experimental.ThreadPrefetchIterDataset)["__iter__"] is before


@pytest.mark.parametrize(
    ("loader", "keeps_threads", "threads"),
    [(loaders.plain, False, 0), (loaders.random_access, False, 0), (loaders.threaded, True, 2)],
)
def test_workers_are_added_where_there_are_none(
    loader: Factory, keeps_threads: bool, threads: int
) -> None:
    """Workers go at the end, with the reader's threads if they are kept, as MaxText does."""
    _, graph = single_thread_variant(loader)
    made = read_graph(with_workers(loader, graph, 2, keeps_threads=keeps_threads)())
    assert made.of_kind("ProcessPrefetch")[0].parameters["num_workers"] == 2
    assert count_threads(made) == threads
    assert made.of_kind("Batch")[0].in_worker


@pytest.mark.parametrize(
    ("loader", "kind"),
    [(loaders.with_worker, "ProcessPrefetch"), (loaders.data_loader, "DataLoader")],
)
def test_workers_that_there_are_become_others(loader: Factory, kind: str) -> None:
    """The call that starts the workers gets another number."""
    _, graph = single_thread_variant(loader)
    made = read_graph(with_workers(loader, graph, 3)())
    assert [node.parameters["num_workers"] for node in made.of_kind(kind)] == [3]


class Kept:
    """A user's map that leaves a trace of each batch that a worker made.

    Args:
        folder: Where.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __call__(self, batch: Any) -> Any:
        """Return the batch unchanged."""
        with open(f"{self._folder}/{os.getpid()}", "a") as file:  # noqa: PTH123  # sent to workers
            file.write(f"{batch[0]}\n")
        return batch


def test_a_tiny_payload_is_made_and_not_sent(tmp_path: Any) -> None:
    """A worker makes every batch; the first one arrives each time."""

    def loader() -> Any:
        return loaders.plain().map(Kept(str(tmp_path))).mp_prefetch(loaders.ONE_WORKER)

    found = batches(with_tiny_payload(loader, single_thread_variant(loader)[1])())
    assert found == IN_ORDER[:1] * 3
    by_workers = [file for file in tmp_path.iterdir() if file.name != str(os.getpid())]
    assert [file.read_text().split() for file in by_workers] == [["0", "8", "16"]]
    assert batches(loader()) == IN_ORDER


def test_a_tiny_payload_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker has nothing else to send; Grain's own method comes back if the factory fails."""
    sent: list[Any] = []

    def mp_prefetch(dataset: Any, _: Any) -> Any:
        sent.extend(dataset)
        return dataset

    monkeypatch.setattr(grain.IterDataset, "mp_prefetch", mp_prefetch)
    with_tiny_payload(loaders.with_worker, Graph(()))()
    assert sent == [0, 0, 0]
    with pytest.raises(OSError, match="no"):
        with_tiny_payload(loaders.raising, Graph(()))()
    assert vars(grain.IterDataset)["mp_prefetch"] is mp_prefetch


@pytest.mark.parametrize(
    ("loader", "threads", "elements"),
    [(loaders.threaded, 2, 4), (loaders.random_access, 16, 500), (loaders.plain, 0, 0)],
)
def test_reader_threads_and_their_buffer_are_known_and_set(
    loader: Factory, threads: int, elements: int
) -> None:
    """An iterated MapDataset has Grain's default threads."""
    graph = read_graph(loader())
    assert (count_threads(graph), count_read_buffer(graph)) == (threads, elements)
    assert count_threads(read_graph(build_variant(loader, Variant(read_threads=0)))) == 0
    made = read_graph(build_variant(loader, Variant(read_threads=16, read_buffer=64)))
    assert (count_threads(made), count_read_buffer(made)) == (16, 64)
