"""Variants of a Grain pipeline: the same pipeline with other settings, through Grain's public API.

The factory runs again for every variant, with the methods that take settings replaced, because an
existing dataset cannot be changed, and `mp_prefetch` makes the batches below it use shared memory.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final

import grain

from netpipe.errors import MisuseError
from netpipe.grain_access.reader import make_loader
from netpipe.grain_access.replaced_methods import Method, pass_to, replaced_method
from netpipe.jobs.targets import LoaderFactory

BATCHES_AHEAD: Final = 2
"""Batches that an added prefetch holds, in each worker."""

READ_AHEAD: Final = 4
"""Elements that each reader thread should read ahead, so that a slow read does not delay others."""


class CannotRebuildError(MisuseError):
    """The factory's pipeline cannot be changed into the variant, or would ignore its settings."""


@dataclass(frozen=True)
class Variant:
    """Settings to change; None and False leave a setting as it is.

    Attributes:
        workers: Worker processes of every `mp_prefetch` and DataLoader.
        keeps_init: Keep at least one worker if the workers run an init function.
        read_threads: Threads of every `to_iter_dataset` and DataLoader.
        read_buffer: Maximum number of elements that each of them may buffer; a smaller buffer is
            kept, unless the threads change too.
        workers_last: Replace all `mp_prefetch` by one at the end, with the last one's settings.
        thread_prefetch: Add a thread at the end that prefetches batches.
    """

    workers: int | None = None
    keeps_init: bool = False
    read_threads: int | None = None
    read_buffer: int | None = None
    workers_last: bool = False
    thread_prefetch: bool = False

    def __or__(self, other: "Variant") -> "Variant":
        """Return a variant with both changes; where they disagree, `other` wins."""
        # `is not False` instead of `!=`, because 0 workers is a change, but 0 == False.
        changes = {
            name: value
            for name, value in vars(other).items()
            if value is not None and value is not False
        }
        return replace(self, **changes)


def build_variant(loader: LoaderFactory, variant: Variant) -> Any:
    """Run a loader factory once and return the variant that it makes of its pipeline.

    A MapDataset becomes the IterDataset that iterating it would make. Grain's classes are restored
    when this returns or raises.

    Raises:
        CannotRebuildError: The factory does not call a method that takes these settings, because it
            returns an existing dataset, for example; or a prefetch cannot be added.
    """
    calls = _Calls(variant)
    dataset = calls.run(loader)
    if not (variant.workers_last or variant.thread_prefetch):
        return dataset
    if not isinstance(dataset, grain.IterDataset):
        raise CannotRebuildError(
            "a prefetch can only be added to a grain IterDataset or MapDataset;"
            f" found {type(dataset).__name__}"
        )
    if variant.workers_last:
        dataset = calls.add_workers(dataset)
    if variant.thread_prefetch:
        # A thread makes the next batches while the trainer works on one.
        prefetch = grain.experimental.ThreadPrefetchIterDataset
        dataset = prefetch(dataset, prefetch_buffer_size=BATCHES_AHEAD)
    return dataset


@contextmanager
def open_iterator(batches: Iterable[Any]) -> Iterator[Iterator[Any]]:
    """Yield an iterator and close it; a DataLoader's has no `close` and ends when it is deleted."""
    iterator = iter(batches)
    try:
        yield iterator
    finally:
        getattr(iterator, "close", lambda: None)()


class _Calls:
    """Replacements for Grain's methods that take settings, and a record of their calls."""

    def __init__(self, variant: Variant) -> None:
        self._variant = variant
        self._seen: set[str] = set()
        self._last: tuple[Any, tuple[Any, ...], dict[str, Any]] = (None, (), {})

    def run(self, loader: LoaderFactory) -> Any:
        """Return the factory's dataset with changed settings; make a MapDataset an IterDataset."""
        with (
            replaced_method(grain.IterDataset, "mp_prefetch", pass_to(self._mp_prefetch)),
            replaced_method(grain.MapDataset, "to_iter_dataset", pass_to(self._to_iter_dataset)),
            replaced_method(grain.DataLoader, "__init__", pass_to(self._make_data_loader)),
        ):
            dataset = make_loader(loader)
            if isinstance(dataset, grain.MapDataset):
                dataset = dataset.to_iter_dataset()
        variant = self._variant
        reads = variant.read_threads is not None or variant.read_buffer is not None
        needed = ["to_iter_dataset"] if reads or variant.workers_last else []
        if variant.workers is not None and not variant.workers_last:
            needed.append("mp_prefetch")
        for name in needed:
            if name not in self._seen:
                raise CannotRebuildError(
                    f"loader() must call {name} for its settings to be changed, and make a new"
                    " dataset each time that it is called; those of ElasticIterator and"
                    " multithread_prefetch cannot be changed"
                )
        return dataset

    def add_workers(self, dataset: Any) -> Any:
        """Return a dataset with the factory's last call of `mp_prefetch` added at its end."""
        options, arguments, named = self._last
        options = options or grain.MultiprocessingOptions()
        # The buffer may have held single elements, but it will hold whole batches.
        ahead = min(options.per_worker_buffer_size, BATCHES_AHEAD)
        options = self._with_workers(replace(options, per_worker_buffer_size=ahead))
        return dataset.mp_prefetch(options, *arguments, **named)

    def _with_workers(self, options: Any, least: int = 0) -> Any:
        workers = self._variant.workers
        return options if workers is None else replace(options, num_workers=max(workers, least))

    def _mp_prefetch(
        self, original: Method, dataset: Any, options: Any = None, *arguments: Any, **named: Any
    ) -> Any:
        self._seen.add("mp_prefetch")
        init = arguments[0] if arguments else named.get("worker_init_fn")
        # 10 is Grain's default.
        given = options or grain.MultiprocessingOptions(num_workers=10)
        if self._variant.workers_last:
            self._last = (given, arguments, named)
            return dataset
        if self._variant.workers is not None:
            options = self._with_workers(given, int(self._variant.keeps_init and init is not None))
        return original(dataset, options, *arguments, **named)

    def _to_iter_dataset(
        self, original: Method, dataset: Any, read_options: Any = None, **named: Any
    ) -> Any:
        self._seen.add("to_iter_dataset")
        threads, buffer = self._variant.read_threads, self._variant.read_buffer
        if threads is not None or buffer is not None:
            given = read_options or grain.ReadOptions()
            read_options = grain.ReadOptions(
                given.num_threads if threads is None else threads,
                min(inf if threads and buffer else given.prefetch_buffer_size, buffer or inf),
            )
        return original(dataset, read_options, **named)

    def _make_data_loader(self, original: Method, loader: Any, **named: Any) -> None:
        self._seen.add("mp_prefetch")
        if self._variant.workers is not None:
            named["worker_count"] = self._variant.workers
        # The constructor calls to_iter_dataset, whose replacement changes the read options.
        original(loader, **named)
