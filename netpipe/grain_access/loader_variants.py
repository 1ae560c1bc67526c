"""Variants of a loader factory: in one thread, with other workers, without a stage.

The variants in `dataset_variants.py` change the settings of one Grain pipeline; the variants here
apply to any loader, and also replace code.
"""

import operator
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from copy import deepcopy
from functools import partial
from inspect import signature
from typing import Any, Final

import grain

from netpipe.errors import MisuseError
from netpipe.grain_access.dataset_variants import (
    BATCHES_AHEAD,
    CannotRebuildError,
    Variant,
    build_variant,
)
from netpipe.grain_access.grain_classes import replace_user_code
from netpipe.grain_access.nodes import Graph, Node
from netpipe.grain_access.observed_sources import ObservedSource
from netpipe.grain_access.reader import (
    collect_datasets,
    find_held_datasets,
    make_loader,
    read_graph,
)
from netpipe.grain_access.replaced_methods import Method, pass_to, replaced_method
from netpipe.grain_access.source_lines import record_source_lines
from netpipe.jobs.targets import LoaderFactory

KEPT: Final = 4
"""Results that an ablated stage computes before it repeats them."""

_SAMPLERS: Final = (
    grain.samplers.IndexSampler,
    grain.experimental.WindowShuffleIterDataset,
    grain.experimental.WindowShuffleMapDataset,
)
_DEFAULT_READER_THREADS: Final = 16
_DEFAULT_READ_BUFFER: Final = 500


def single_thread_variant(loader: Callable[..., Any]) -> tuple[LoaderFactory, Graph]:
    """Return a factory of the same loader in one thread, and the unmodified loader's graph.

    The new factory makes a `OneThread`; for a loader that is not Grain's, it passes 0 `workers`. If
    the pipeline cannot be rebuilt, `loader` itself is returned. A loader that holds a Grain dataset
    only loses workers and reader threads, because its own code may be the slow part.
    """
    with record_source_lines() as recording:
        made = make_loader(loader)
        graph = read_graph(made, recording)
    if not graph.nodes and takes_parameters(loader, "workers"):
        usual = signature(loader).parameters["workers"].default
        return partial(loader, workers=0), Graph(
            other_workers=usual if isinstance(usual, int) else 0
        )
    held = [read_graph(dataset) for dataset in find_held_datasets(made).values()]
    changed = graph if graph.nodes else held[0] if len(held) == 1 else Graph()
    if not graph.nodes:
        graph = Graph(other_workers=count_workers(changed))
        if not graph.other_workers:
            return loader, graph

    def make() -> Any:
        variant = build_variant(loader, single_thread_settings(changed))
        return OneThread(variant) if graph.nodes else variant

    try:
        make()
    except CannotRebuildError:
        return loader, graph
    return make, graph


def single_thread_settings(graph: Graph) -> Variant:
    """Return the settings that remove a pipeline's workers and reader threads."""
    return Variant(
        workers=0 if graph.of_kind("ProcessPrefetch", "NoWorkers", "DataLoader") else None,
        read_threads=0 if _has_reader(graph) else None,
    )


def with_workers(
    loader: Callable[..., Any], graph: Graph, workers: int, *, keeps_threads: bool = False
) -> LoaderFactory:
    """Return a factory of the same loader with another number of workers.

    A factory with a parameter `workers` is called with it. A Grain pipeline without workers gets
    them at its end, and loses its reader threads unless `keeps_threads` is set.
    """
    if takes_parameters(loader, "workers"):
        return partial(loader, workers=workers)
    if graph.of_kind("ProcessPrefetch", "DataLoader") or graph.other_workers:
        return lambda: build_variant(loader, Variant(workers=workers))
    variant = Variant(read_threads=0 if _has_reader(graph) and not keeps_threads else None)
    options = grain.MultiprocessingOptions(workers, per_worker_buffer_size=BATCHES_AHEAD)
    return lambda: build_variant(loader, variant).mp_prefetch(options)


def takes_parameters(loader: LoaderFactory, *names: str) -> bool:
    """Return whether a factory has all of these parameters."""
    try:
        return signature(loader).parameters.keys() >= {*names}
    except (TypeError, ValueError):  # a callable written in C may have no signature
        return False


def with_one_epoch(loader: Callable[..., Any], *, shuffles: bool = True) -> LoaderFactory:
    """Return a factory of the same loader, which ends after one epoch if there is a way.

    Grain's `repeat` does nothing, a DataLoader's sampler has one epoch, and a factory gets
    `epochs=1` or `num_epochs=1` if it has such a parameter. With `shuffles=False`, the same holds
    for shuffling: a factory gets `shuffle=False`.
    """
    skipped, fixed = ["repeat"], dict[str, Any](epochs=1, num_epochs=1)
    if not shuffles:
        skipped, fixed = [*skipped, "shuffle"], {**fixed, "shuffle": False, "window_size": 1}

    def fix(original: Method, *given: Any, **named: Any) -> Any:
        bound = signature(original).bind(*given, **named)
        known = bound.signature.parameters
        bound.arguments |= {name: fixed[name] for name in fixed if name in known}
        return original(*bound.args, **bound.kwargs)

    def make() -> Any:
        with ExitStack() as replaced:
            for name in skipped:
                skip = partial(replaced_method, grain.MapDataset, name)
                replaced.enter_context(skip(lambda _: lambda made, *_, **__: made))
            for kind in _SAMPLERS:
                replaced.enter_context(replaced_method(kind, "__init__", pass_to(fix)))
            # A loader's own `window_size` may be anything.
            named = (name for name in fixed if name != "window_size")
            return loader(**{n: fixed[n] for n in named if takes_parameters(loader, n)})

    return make


def choose_workers(loader: Callable[..., Any], workers: int, target: str) -> LoaderFactory:
    """Return a factory of the same loader with the chosen number of workers.

    Raises:
        MisuseError: The factory has no parameter `workers`, and returns no Grain pipeline.
    """
    if takes_parameters(loader, "workers"):
        return partial(loader, workers=workers)
    _, graph = single_thread_variant(loader)
    if not graph.nodes and not graph.other_workers:
        raise MisuseError(
            f"{target}: must have a parameter `workers`, or return a Grain pipeline, so that the "
            "number of its workers can be chosen; found neither. Add it, or omit --workers"
        )
    if not (workers or graph.of_kind("ProcessPrefetch", "DataLoader") or graph.other_workers):
        return loader
    return with_workers(loader, graph, workers, keeps_threads=True)


def with_tiny_payload(loader: LoaderFactory, graph: Graph) -> LoaderFactory:
    """Return a factory of the same pipeline whose workers make every batch but send nothing.

    The training process gets the first batch each time.
    """
    # Copies cost time, and only user code that runs after the workers can need them.
    is_changed = any("transform" in node.parameters and not node.in_worker for node in graph.nodes)
    copy: Callable[[Any], Any] = deepcopy if is_changed else lambda first: first

    def send_nothing(original: Method, dataset: Any, *arguments: Any, **named: Any) -> Any:
        # Before workers start, because their batches use shared memory that only they free.
        iterator = iter(dataset)
        first = next(iterator)
        iterator.close()
        return original(dataset.map(lambda _: 0), *arguments, **named).map(lambda _: copy(first))

    def make() -> Any:
        with replaced_method(grain.IterDataset, "mp_prefetch", pass_to(send_nothing)):
            return loader()

    return make


def without_stage(loader: LoaderFactory, node: int) -> LoaderFactory | None:
    """Return a factory of the same Grain pipeline in which one stage costs nothing.

    The stage, given by its node in the pipeline's graph, repeats its first results.

    Returns:
        None if the stage is not a map, batch or source, or if `loader` returns the same dataset
        each time, so that the change would reach the unmodified loader too.
    """

    def find_stage(made: Any) -> object:
        return collect_datasets(made.dataset if isinstance(made, OneThread) else made)[node]

    def record(value: Any) -> Any:
        if callable(value):
            return Recorded(value)
        return ObservedSource(value, Recorded(operator.call))

    def make() -> Any:
        made = loader()
        replace_user_code(find_stage(made), record)
        return made

    stage = find_stage(loader())
    is_shared = stage is find_stage(loader())
    return None if is_shared or not replace_user_code(stage, record) else make


class Recorded:
    """A function that computes its first results, and then returns copies of them.

    It returns copies because later stages may change their elements in place.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._kept: list[Any] = []
        # A plain number can be sent to a worker, unlike a lock or an iterator.
        self._calls = 0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """Return a result of the function, possibly that of an earlier call."""
        if len(self._kept) < KEPT:
            result = self._function(*arguments, **named)
            self._kept.append(_timed_copy(result))
            return result
        self._calls += 1
        return _timed_copy(self._kept[self._calls % KEPT])


_COPYING: Final = threading.local()


def copying_s() -> float:
    """Return the CPU seconds that this thread spent on copies, which are not loading."""
    return float(getattr(_COPYING, "cpu_s", 0.0))


def _timed_copy(value: Any) -> Any:
    started_s = time.thread_time()
    try:
        return deepcopy(value)
    finally:
        _COPYING.cpu_s = copying_s() + time.thread_time() - started_s


class OneThread(Iterable[Any]):
    """A dataset that is iterated without its prefetching threads."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __iter__(self) -> Iterator[Any]:
        kind = grain.experimental.ThreadPrefetchIterDataset
        with replaced_method(kind, "__iter__", lambda _: lambda made: iter(made.parents[0])):
            return iter(self.dataset)


def count_workers(graph: Graph) -> int:
    """Return the number of worker processes of a pipeline."""
    # A DataLoader makes its workers with `mp_prefetch`.
    nodes = graph.of_kind("ProcessPrefetch") or graph.of_kind("DataLoader")
    return graph.other_workers + sum(node.integer("num_workers") or 0 for node in nodes)


def count_threads(graph: Graph) -> int:
    """Return the number of reader threads in each process of a Grain pipeline that reads."""
    threads = max((node.integer("num_threads") or 0 for node in graph.of_kind("ToIter")), default=0)
    # Grain iterates a MapDataset with its default options.
    is_map = bool(graph.nodes) and graph.nodes[0].random_access
    return threads or (_DEFAULT_READER_THREADS if is_map else 0)


def count_read_buffer(graph: Graph) -> int:
    """Return the number of elements that the reader threads of each process read ahead."""
    buffers = [node.integer("prefetch_buffer_size") for node in graph.of_kind("ToIter")]
    return max((size or 0 for size in buffers), default=_DEFAULT_READ_BUFFER)


def section_of(node: Node | None, graph: Graph) -> str:
    """Return where a stage runs: "workers", "threads" or "trainer"."""
    if graph.other_workers or (node is not None and node.in_worker):
        return "workers"
    is_threaded = node is not None and node.random_access and count_threads(graph) > 0
    return "threads" if is_threaded else "trainer"


def _has_reader(graph: Graph) -> bool:
    """Return whether making or iterating the loader calls `to_iter_dataset`."""
    return bool(graph.of_kind("ToIter", "DataLoader")) or graph.nodes[0].random_access
