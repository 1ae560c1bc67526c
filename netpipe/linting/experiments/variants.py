"""A loader factory's pipeline with other settings than its author chose, by Grain's public API.

The factory runs anew for every variant, with the few calls replaced that settings are given to: a
dataset that exists cannot be changed, and merely building on one may change it (`mp_prefetch`
makes the batches below it use shared memory).
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields, replace
from functools import wraps
from typing import Any, Final

import grain

from netpipe.errors import MisuseError
from netpipe.linting.graph.reader import read_graph
from netpipe.measuring.loader_puller import LoaderFactory

BATCHES_AHEAD: Final = 2  # that a prefetch which the variant adds holds, in each worker

# What has settings of its own in the place of those calls, as a graph names it.
_UNCHANGED: Final = {
    "Elastic": "ElasticIterator",
    "MultithreadPrefetch": "multithread_prefetch",
}
_Method = Callable[..., Any]


class CannotRebuildError(MisuseError):
    """A variant has no effect on what the factory returns, or cannot be had of it."""


@dataclass(frozen=True)
class Variant:
    """What is to differ; by default nothing does.

    Attributes:
        workers: Worker processes of every `mp_prefetch` and DataLoader; 0: none, which gives the
            elements in the order that the number of workers may change.
        read_threads: Threads of every `to_iter_dataset` and DataLoader.
        read_buffer: Elements that such a reader holds at most; one that holds fewer stays so.
        workers_last: Whether one `mp_prefetch` at the end takes the place of those that there are,
            with the settings of the last of them.
        thread_prefetch: Whether a thread makes batches ahead at the end.
    """

    workers: int | None = None
    read_threads: int | None = None
    read_buffer: int | None = None
    workers_last: bool = False
    thread_prefetch: bool = False

    def __or__(self, other: "Variant") -> "Variant":
        """Return both changes together; where they disagree, `other` has its way."""
        changes = {one.name: getattr(other, one.name) for one in fields(Variant)}
        nothing = (None, False)  # by identity: 0 workers are a change
        made = {name: to for name, to in changes.items() if not any(to is one for one in nothing)}
        return replace(self, **made)

    @property
    def changes_reading(self) -> bool:
        """Whether the reader's settings differ."""
        return self.read_threads is not None or self.read_buffer is not None


def build_variant(loader: LoaderFactory, variant: Variant) -> Any:
    """Run a loader factory so that it makes a variant of its pipeline.

    Grain's classes are as they were when this returns, whatever happens.

    Args:
        loader: Makes the pipeline; called once.
        variant: What is to differ.

    Returns:
        What the factory returned: an IterDataset or a DataLoader; a MapDataset as the IterDataset
        that iterating it would make.

    Raises:
        CannotRebuildError: The factory made none of the calls that the variant changes: it returns
            a dataset that it made before, say.
    """
    calls, dataset = _called(loader, variant)
    if not (variant.workers_last or variant.thread_prefetch):
        return dataset
    if not isinstance(dataset, grain.IterDataset):
        raise CannotRebuildError(
            "a prefetch can only be added to a grain IterDataset or MapDataset;"
            f" found {type(dataset).__name__}"
        )
    dataset = calls.with_workers_last(dataset) if variant.workers_last else dataset
    return add_thread_prefetch(dataset) if variant.thread_prefetch else dataset


def initializes_workers(loader: LoaderFactory) -> bool:
    """Return whether a pipeline's workers run a function of the user's as they start.

    Raises:
        CannotRebuildError: The pipeline cannot be had with another number of workers.
    """
    return _called(loader, Variant(workers=0))[0].has_init


def _called(loader: LoaderFactory, variant: Variant) -> "tuple[_Calls, Any]":
    calls = _Calls(variant)
    with calls.replaced():
        dataset = loader()
        if isinstance(dataset, grain.MapDataset):
            dataset = dataset.to_iter_dataset()
    calls.check(dataset)
    return calls, dataset


@contextmanager
def open_iterator(batches: Iterable[Any]) -> Iterator[Iterator[Any]]:
    """Give an iterator, and close it: a DataLoader's, which cannot be, ends as it is let go of."""
    iterator = iter(batches)
    try:
        yield iterator
    finally:
        getattr(iterator, "close", lambda: None)()


def add_thread_prefetch(dataset: Any) -> Any:
    """Let a thread make the next batches while the trainer works on one."""
    return grain.experimental.ThreadPrefetchIterDataset(dataset, prefetch_buffer_size=BATCHES_AHEAD)


class _Calls:
    """The calls that settings are given to, while a factory runs.

    Args:
        variant: What they are to be given instead.

    Attributes:
        has_init: Whether an `mp_prefetch` was given a function that its workers are to run.
    """

    def __init__(self, variant: Variant) -> None:
        self._variant = variant
        self._reads = self._counts_workers = self.has_init = False
        self._last: tuple[Any, tuple[Any, ...], dict[str, Any]] = (None, (), {})

    @contextmanager
    def replaced(self) -> Iterator[None]:
        """Hold the replacements in place."""
        with ExitStack() as stack:
            for owner, name, replacement in (
                (grain.IterDataset, "mp_prefetch", self._mp_prefetch),
                (grain.MapDataset, "to_iter_dataset", self._to_iter_dataset),
                (grain.DataLoader, "__init__", self._data_loader),
            ):
                original = vars(owner)[name]
                stack.callback(setattr, owner, name, original)
                setattr(owner, name, wraps(original)(replacement(original)))
            yield

    def check(self, dataset: Any) -> None:
        """Raise an error unless the factory made the calls that the variant changes."""
        if self._variant.workers_last or self._variant.changes_reading:
            self._demand(self._reads, "to_iter_dataset", dataset)
        if self._variant.workers is not None and not self._variant.workers_last:
            self._demand(self._counts_workers, "mp_prefetch", dataset)

    @staticmethod
    def _demand(called: bool, name: str, dataset: Any) -> None:
        if not called:
            for node in read_graph(dataset).nodes:
                if node.kind in _UNCHANGED:
                    raise CannotRebuildError(
                        f"the settings of {_UNCHANGED[node.kind]} cannot be changed by the"
                        f" harness, only those of {name}, and there is no {name} in it"
                    )
            raise CannotRebuildError(
                f"loader() must call {name} for its settings to be changed; it made no such call."
                " Let it make a new dataset each time that it is called"
            )

    def with_workers_last(self, dataset: Any) -> Any:
        """Add the one mp_prefetch that takes the place of all."""
        options, arguments, named = self._last
        options = options or grain.MultiprocessingOptions()
        # What was a few single elements would be as many whole batches.
        ahead = min(options.per_worker_buffer_size, BATCHES_AHEAD)
        options = self._with_workers(replace(options, per_worker_buffer_size=ahead))
        return dataset.mp_prefetch(options, *arguments, **named)

    def _with_workers(self, options: Any) -> Any:
        workers = self._variant.workers
        return options if workers is None else replace(options, num_workers=workers)

    def _read_options(self, options: Any) -> Any:
        if not self._variant.changes_reading:
            return options
        options = options or grain.ReadOptions()
        threads, buffer = self._variant.read_threads, self._variant.read_buffer
        return grain.ReadOptions(
            num_threads=options.num_threads if threads is None else threads,
            prefetch_buffer_size=options.prefetch_buffer_size
            if buffer is None
            else min(buffer, options.prefetch_buffer_size),
        )

    def _mp_prefetch(self, original: _Method) -> _Method:
        def mp_prefetch(dataset: Any, options: Any = None, *arguments: Any, **named: Any) -> Any:
            self._counts_workers = True
            self.has_init |= (
                arguments[0] if arguments else named.get("worker_init_fn")
            ) is not None
            if self._variant.workers is None and not self._variant.workers_last:
                return original(dataset, options, *arguments, **named)
            options = options or grain.MultiprocessingOptions(num_workers=10)  # Grain's default
            if self._variant.workers_last:
                self._last = (options, arguments, named)
                return dataset
            return original(dataset, self._with_workers(options), *arguments, **named)

        return mp_prefetch

    def _to_iter_dataset(self, original: _Method) -> _Method:
        def to_iter_dataset(dataset: Any, read_options: Any = None, **named: Any) -> Any:
            self._reads = True
            return original(dataset, self._read_options(read_options), **named)

        return to_iter_dataset

    def _data_loader(self, original: _Method) -> _Method:
        def __init__(loader: Any, **named: Any) -> None:  # noqa: N807  # the method it replaces
            self._counts_workers = True
            if self._variant.workers is not None:
                named["worker_count"] = self._variant.workers
            original(loader, **named)  # it reads by to_iter_dataset, which has its options

        return __init__
