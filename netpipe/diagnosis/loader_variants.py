"""A loader as an intervention wants it: other workers, a lane without any, a payload of nothing."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from functools import partial, wraps
from typing import Any, Final

import grain

from netpipe.linting.experiments.variants import CannotRebuildError, Variant, build_variant
from netpipe.linting.graph.nodes import Graph
from netpipe.linting.graph.reader import read_graph
from netpipe.linting.graph.source_lines import record_source_lines
from netpipe.measuring.loader_puller import LoaderFactory

_WORKERS: Final = ("ProcessPrefetch", "NoWorkers", "DataLoader")
_BATCHES_AHEAD: Final = 2  # of workers that the pipeline did not have


def serial(loader: LoaderFactory) -> tuple[LoaderFactory, Graph]:
    """Return the factory of a lane: the same loader in one thread, where it is Grain's.

    Args:
        loader: Makes the loader; called once, to see what it makes.

    Returns:
        The factory, of a `OneThread` where the pipeline could be rebuilt, and the graph of what the
        loader makes, which is empty if it is not Grain's.
    """
    with record_source_lines() as recording:
        graph = read_graph(loader(), recording)
    if not graph.nodes:
        return loader, graph
    lane = _lane_of(loader, graph)
    try:
        lane()
    except CannotRebuildError:  # the loader returns what it made before
        return loader, graph
    return lane, graph


def _lane_of(loader: LoaderFactory, graph: Graph) -> "Callable[[], OneThread]":
    variant = Variant(
        workers=0 if graph.of_kind(*_WORKERS) else None,
        read_threads=0 if _reads(graph) else None,
    )
    return lambda: OneThread(build_variant(loader, variant))


def with_workers(loader: LoaderFactory, graph: Graph, workers: int) -> LoaderFactory:
    """Return the factory of the same Grain pipeline with so many workers.

    One that has none gets them at its end, and reads without threads in each of them.
    """
    if graph.of_kind("ProcessPrefetch", "DataLoader"):
        return lambda: build_variant(loader, Variant(workers=workers))
    variant = Variant(read_threads=0 if _reads(graph) else None)
    options = grain.MultiprocessingOptions(workers, per_worker_buffer_size=_BATCHES_AHEAD)

    return lambda: build_variant(loader, variant).mp_prefetch(options)


def without_read_threads(loader: LoaderFactory) -> LoaderFactory:
    """Return the factory of the same pipeline that reads without threads of their own."""
    return lambda: build_variant(loader, Variant(read_threads=0))


def with_tiny_payload(loader: LoaderFactory, graph: Graph) -> LoaderFactory:
    """Return the factory of the same pipeline whose workers make every element and send nothing.

    What they would have sent first is what the training process goes on with each time.
    """
    # Copies cost time, and only the user's code behind the workers can need them.
    changes = any("transform" in one.parameters and not one.in_worker for one in graph.nodes)
    sending_nothing = partial(_sending_nothing, deepcopy if changes else lambda first: first)

    def made() -> Any:
        with _replaced(grain.IterDataset, "mp_prefetch", sending_nothing):
            return loader()

    return made


def on_half_the_cores(loader: LoaderFactory) -> LoaderFactory:
    """Return the factory of the same loader, whose threads and processes have half of the cores.

    It must be called, and its loader started, by a thread that is given up afterwards: a thread
    cannot be told apart from what it starts.
    """

    def made() -> Any:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[: max(1, len(cores) // 2)])
        return loader()

    return made


def _reads(graph: Graph) -> bool:
    """Whether a `to_iter_dataset` is called, by the loader or by who iterates its MapDataset."""
    return bool(graph.of_kind("ToIter", "DataLoader")) or graph.nodes[0].random_access


class OneThread(Iterable[Any]):
    """A dataset whose prefetching threads are passed over when it is iterated.

    Args:
        dataset: A Grain dataset or DataLoader without workers.
    """

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        with _replaced(grain.experimental.ThreadPrefetchIterDataset, "__iter__", _passed_over):
            return iter(self.dataset)


def _passed_over(_: Callable[..., Any]) -> Callable[..., Any]:
    def __iter__(dataset: Any) -> Any:  # noqa: N807  # the method it replaces
        return iter(dataset.parents[0])

    return __iter__


def _sending_nothing(
    again: Callable[[Any], Any], original: Callable[..., Any]
) -> Callable[..., Any]:
    def mp_prefetch(dataset: Any, *arguments: Any, **named: Any) -> Any:
        # Before there are workers: their batches are made for shared memory, which only they give.
        iterator = iter(dataset)
        first = next(iterator)
        iterator.close()
        return original(dataset.map(_nothing), *arguments, **named).map(lambda _: again(first))

    return mp_prefetch


def _nothing(_: object) -> int:
    return 0


@contextmanager
def _replaced(owner: type, name: str, by: Callable[..., Any]) -> Iterator[None]:
    with ExitStack() as stack:
        original = vars(owner)[name]
        stack.callback(setattr, owner, name, original)
        setattr(owner, name, wraps(original)(by(original)))
        yield
