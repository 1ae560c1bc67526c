"""Variants of a loader: in one thread, with other workers, without payload, on half the cores."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from functools import partial, wraps
from typing import Any, Final

import grain

from netpipe.linting.experiments.variants import (
    BATCHES_AHEAD,
    CannotRebuildError,
    Variant,
    build_variant,
)
from netpipe.linting.graph.nodes import Graph, Node
from netpipe.linting.graph.reader import read_graph
from netpipe.linting.graph.source_lines import record_source_lines
from netpipe.measuring.loader_puller import LoaderFactory

_DEFAULT_READER_THREADS: Final = 16
_Method = Callable[..., Any]


def single_thread_variant(loader: LoaderFactory) -> tuple[LoaderFactory, Graph]:
    """Return the factory of the same loader in one thread, if it is Grain's.

    Returns:
        The factory, which makes a `OneThread` if the pipeline could be rebuilt and is `loader`
        itself otherwise; and the graph of the unmodified loader, which is empty if it is not
        Grain's.
    """
    with record_source_lines() as recording:
        graph = read_graph(loader(), recording)
    if not graph.nodes:
        return loader, graph
    variant = Variant(
        workers=0 if graph.of_kind("ProcessPrefetch", "NoWorkers", "DataLoader") else None,
        read_threads=0 if _has_reader(graph) else None,
    )

    def make() -> OneThread:
        return OneThread(build_variant(loader, variant))

    try:
        make()
    except CannotRebuildError:
        return loader, graph
    return make, graph


def with_workers(loader: LoaderFactory, graph: Graph, workers: int) -> LoaderFactory:
    """Return the factory of the same Grain pipeline with another number of workers.

    A pipeline without workers gets them at its end, each without reader threads.
    """
    if graph.of_kind("ProcessPrefetch", "DataLoader"):
        return lambda: build_variant(loader, Variant(workers=workers))
    variant = Variant(read_threads=0 if _has_reader(graph) else None)
    options = grain.MultiprocessingOptions(workers, per_worker_buffer_size=BATCHES_AHEAD)
    return lambda: build_variant(loader, variant).mp_prefetch(options)


def without_read_threads(loader: LoaderFactory) -> LoaderFactory:
    """Return the factory of the same pipeline without reader threads."""
    return lambda: build_variant(loader, Variant(read_threads=0))


def with_tiny_payload(loader: LoaderFactory, graph: Graph) -> LoaderFactory:
    """Return the factory of the same pipeline whose workers make every batch and send nothing.

    The training process goes on with the first batch each time.
    """
    # Copies cost time, and only the user's code behind the workers can need them.
    is_changed = any("transform" in node.parameters and not node.in_worker for node in graph.nodes)
    sending_nothing = partial(_sending_nothing, deepcopy if is_changed else lambda first: first)

    def make() -> Any:
        with _replaced(grain.IterDataset, "mp_prefetch", sending_nothing):
            return loader()

    return make


def on_half_the_cores(loader: LoaderFactory) -> LoaderFactory:
    """Return the factory of the same loader, whose threads and processes have half of the cores.

    A thread that is not used again must call it and start the loader: threads and processes
    inherit their cores from whoever starts them.
    """

    def make() -> Any:
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, cores[: max(1, len(cores) // 2)])
        return loader()

    return make


def count_workers(graph: Graph) -> int:
    """Return the worker processes of a Grain pipeline."""
    return sum(_counts(graph, "num_workers", "ProcessPrefetch", "DataLoader"))


def count_threads(graph: Graph) -> int:
    """Return the reader threads of each process of a Grain pipeline that reads."""
    most = max(_counts(graph, "num_threads", "ToIter"), default=0)
    # Grain iterates a MapDataset with its default options.
    is_map = bool(graph.nodes) and graph.nodes[0].random_access
    return most or (_DEFAULT_READER_THREADS if is_map else 0)


def section_of(node: Node | None, graph: Graph) -> str:
    """Return where a stage runs: "workers", "threads" or "trainer"."""
    if node is not None and node.in_worker:
        return "workers"
    is_threaded = node is not None and node.random_access and count_threads(graph) > 0
    return "threads" if is_threaded else "trainer"


def _counts(graph: Graph, parameter: str, *kinds: str) -> list[int]:
    counts = (node.parameters.get(parameter, 0) for node in graph.of_kind(*kinds))
    return [count for count in counts if isinstance(count, int)]


def _has_reader(graph: Graph) -> bool:
    """Return whether the loader, or iterating its MapDataset, calls `to_iter_dataset`."""
    return bool(graph.of_kind("ToIter", "DataLoader")) or graph.nodes[0].random_access


class OneThread(Iterable[Any]):
    """A dataset that is iterated without its prefetching threads."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        with _replaced(grain.experimental.ThreadPrefetchIterDataset, "__iter__", _skipping):
            return iter(self.dataset)


def _skipping(_: _Method) -> _Method:
    return lambda dataset: iter(dataset.parents[0])


def _sending_nothing(copy: Callable[[Any], Any], original: _Method) -> _Method:
    def mp_prefetch(dataset: Any, *arguments: Any, **named: Any) -> Any:
        # Taken before workers start: their batches are in shared memory, which only they free.
        iterator = iter(dataset)
        first = next(iterator)
        iterator.close()
        return original(dataset.map(_nothing), *arguments, **named).map(lambda _: copy(first))

    return mp_prefetch


def _nothing(_: object) -> int:
    return 0


@contextmanager
def _replaced(owner: type, name: str, wrapper: Callable[[_Method], _Method]) -> Iterator[None]:
    with ExitStack() as stack:
        original = vars(owner)[name]
        stack.callback(setattr, owner, name, original)
        setattr(owner, name, wraps(original)(wrapper(original)))
        yield
