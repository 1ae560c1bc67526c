"""Loaders to diagnose, in this process or as targets of others."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import grain
import numpy as np

from netpipe.grain_access.grain_classes import replace_source
from netpipe.grain_access.reader import collect_datasets

ALONE = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
THREADS = grain.ReadOptions(num_threads=2, prefetch_buffer_size=4)
ONE_WORKER = grain.MultiprocessingOptions(num_workers=1, per_worker_buffer_size=1)


class Numbers:
    """A source of the user's own: twelve numbers."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> int:
        return int(index)


class Counted(grain.DatasetIterator):  # type: ignore[misc]  # Grain is not typed for mypy
    """An iterator of the user's own: twelve numbers."""

    def __init__(self) -> None:
        super().__init__()
        self._next = 0

    def __next__(self) -> int:
        if self._next == 12:
            raise StopIteration
        self._next += 1
        return self._next - 1

    def get_state(self) -> int:
        """Return the next number."""
        return self._next

    def set_state(self, state: int) -> None:
        """Continue with a number."""
        self._next = state


class Streaming(grain.IterDataset):  # type: ignore[misc]
    """A dataset of the user's own with an iterator of its own."""

    def __iter__(self) -> Counted:
        return Counted()


class Tens:
    """An iterator that is not Grain's: ten, twenty."""

    def __init__(self) -> None:
        self._next = 0

    def __next__(self) -> int:
        if self._next == 2:
            raise StopIteration
        self._next += 1
        return 10 * self._next


class Plain(grain.IterDataset):  # type: ignore[misc]
    """A dataset of the user's own with such an iterator."""

    def __iter__(self) -> Tens:
        return Tens()


class Generating(grain.IterDataset):  # type: ignore[misc]
    """A dataset of the user's own that is a generator, which not every Grain accepts."""

    def __iter__(self) -> Iterator[int]:
        yield from range(12)


def double(number: int) -> int:
    """Return twice a number."""
    return 2 * number


def halves(batch: Any) -> Any:
    """Return half of each number of a batch."""
    return batch // 2


def plain() -> Any:
    """Return a user's source, a map and a batch, without threads."""
    return grain.MapDataset.source(Numbers()).map(double).to_iter_dataset(ALONE).batch(4)


def threaded() -> Any:
    """Return the same pipeline, read by threads and prefetched by another one."""
    dataset = grain.MapDataset.source(Numbers()).map(double).to_iter_dataset(THREADS).batch(4)
    return grain.experimental.ThreadPrefetchIterDataset(dataset, prefetch_buffer_size=2)


def with_worker() -> Any:
    """Return the same pipeline in a worker."""
    return plain().mp_prefetch(ONE_WORKER)


def random_access() -> Any:
    """Return a MapDataset, which Grain iterates with its default threads."""
    return grain.MapDataset.source(Numbers()).map(double).batch(4)


def mixed() -> Any:
    """Return two sources in turns."""
    ones = grain.MapDataset.source(Numbers()).map(double)
    others = grain.MapDataset.range(100, 112).map(double)
    return grain.MapDataset.mix([ones, others], [0.5, 0.5]).batch(4).to_iter_dataset(ALONE)


def data_loader(workers: int = 0) -> Any:
    """Return an endless DataLoader over the twelve numbers."""
    sampler = grain.samplers.IndexSampler(
        num_records=12, shard_options=grain.sharding.NoSharding(), num_epochs=None, shuffle=False
    )
    return grain.DataLoader(
        data_source=Numbers(),
        sampler=sampler,
        operations=[grain.transforms.Batch(4)],
        worker_count=workers,
    )


_MADE = grain.MapDataset.source(Numbers()).map(double)


def shared() -> Any:
    """Return a pipeline on a dataset that is made only once."""
    return _MADE.to_iter_dataset(ALONE).batch(4)


_WHOLE = shared()


def the_same() -> Any:
    """Return the same dataset each time."""
    return _WHOLE


def busy(number: int) -> Any:
    """Compute for 2 ms."""
    until = time.perf_counter() + 0.002
    while time.perf_counter() < until:
        pass
    return np.full(4, number)


def slow() -> Any:
    """Return batches that take about 8 ms."""
    numbers = grain.MapDataset.source(Numbers()).repeat()
    return numbers.map(busy).to_iter_dataset(ALONE).batch(4)


def unsendable() -> Any:
    """Return the same with a function that cannot be sent to workers, so none are tried."""
    lock = threading.Lock()

    def locked(number: int) -> Any:
        with lock:
            return busy(number)

    numbers = grain.MapDataset.source(Numbers()).repeat()
    return numbers.map(locked).to_iter_dataset(ALONE).batch(4)


def printing() -> Iterator[int]:
    """Yield numbers, and print text that looks like an answer."""
    print("[1, 2.0, 3.0]")  # noqa: T201  # a user's code may
    while True:
        print('"ready"')  # noqa: T201
        yield 1


def raising() -> Any:
    """Raise an error at the start."""
    raise OSError("no [bold]data[/x] here\nor there")


def raising_late() -> Iterator[int]:
    """Raise an error after five batches."""
    yield from range(5)
    raise OSError("disk gone")


def ending_process() -> Iterator[int]:
    """End the process after the first batches."""
    yield from range(3)
    raise SystemExit(3)


def empty() -> Any:
    """Return no batches."""
    return grain.MapDataset.range(12).filter(lambda _: False).to_iter_dataset(ALONE)


def tokenize(element: dict[str, Any]) -> dict[str, Any]:
    """Add tokens to the given element, as flax's gemma example does; the slowest stage."""
    element["text"] = np.arange(64) + 0 * sum(range(20_000))
    return element


def rekey(element: dict[str, Any]) -> dict[str, Any]:
    """Rename a feature of the given element, as MaxText's Rekey does."""
    element["inputs"] = element.pop("text")
    return element


class Rows:
    """A source of new dictionaries."""

    def __len__(self) -> int:
        return 320

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"id": np.int64(index)}


def in_place(workers: int = 1) -> Any:
    """Return maps that change their element in place, batches of 32, and workers."""
    rows = grain.MapDataset.source(Rows()).repeat().map(tokenize).map(rekey)
    dataset = rows.batch(32).to_iter_dataset(ALONE)
    return dataset.mp_prefetch(grain.MultiprocessingOptions(workers)) if workers else dataset


def renamed_behind_worker() -> Any:
    """Return a pipeline whose map behind the workers changes the batch in place."""
    rows = grain.MapDataset.source(Rows()).map(tokenize).batch(32)
    return rows.to_iter_dataset(ALONE).mp_prefetch(ONE_WORKER).map(rekey)


_WORKER_STATE: dict[str, int] = {}


def initialize_worker(*_: object) -> None:
    """Set a global of the worker, as a `worker_init_fn` that opens a connection does."""
    _WORKER_STATE["offset"] = 1


def with_offset(number: int) -> int:
    """Add an offset, which only workers have."""
    return number + _WORKER_STATE["offset"]


def works_in_workers_alone() -> Any:
    """Return a healthy loader that cannot run in the training process."""
    numbers = grain.MapDataset.source(Numbers()).repeat().map(with_offset)
    return numbers.batch(4).to_iter_dataset(ALONE).mp_prefetch(ONE_WORKER, initialize_worker)


def taking_workers(workers: int = 3) -> list[str]:
    """Return the number of workers in words; the loader is not Grain's."""
    return [f"{workers} workers"]


def list_sources(dataset: Any) -> list[object]:
    """Return the sources of a pipeline."""
    found: list[object] = []

    def keep(source: object) -> object:
        found.append(source)
        return source

    for part in collect_datasets(dataset).values():
        replace_source(part, keep)
    return found
