"""Loaders in plain Python: in the trainer's thread, in other threads, and torch-style."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from queue import Queue

from perf_tests.studies.faults.parts.batches import ROWS, Array, Batch, batch, collate, row
from perf_tests.studies.faults.parts.delays import Delay, Spend, wait

_LONG = 10_000_000


def in_main_thread(
    delay: Delay, spend: Spend = wait, make: Callable[[int], Batch] = batch
) -> Iterator[Batch]:
    """Yield batches forever, each made in the thread that asks for it.

    Args:
        delay: Seconds of each batch.
        spend: How they are spent.
        make: Makes a batch from its number.
    """
    for number in count():
        spend(delay(number))
        yield make(number)


class Prefetched(Iterator[Batch]):
    """Batches that a thread puts into a queue.

    Args:
        batches: The batches to load.
        depth: Batches that the queue holds.
        lent: Batches already in the queue at the start, like a buffer that had hours to fill.
    """

    def __init__(self, batches: Iterable[Batch], depth: int, lent: int = 0) -> None:
        self._batches = batches
        self._queue: Queue[Batch | None] = Queue(depth)
        self._closed = False
        for number in range(min(lent, depth)):
            self._queue.put(batch(number))
        threading.Thread(target=self._load, name="prefetch", daemon=True).start()

    def _load(self) -> None:
        for loaded in self._batches:
            if self._closed:
                return
            self._queue.put(loaded)
        self._queue.put(None)

    def __next__(self) -> Batch:
        loaded = self._queue.get()
        if loaded is None:
            raise StopIteration
        return loaded

    def close(self) -> None:
        """Stop the thread at its next batch."""
        self._closed = True
        while not self._queue.empty():
            self._queue.get_nowait()


class FedByThreads(Iterator[Batch]):
    """Batches that several threads make in pure Python, sharing the GIL."""

    def __init__(self, delay: Delay, spend: Spend, threads: int, depth: int) -> None:
        self._queue: Queue[Batch] = Queue(depth)
        for _ in range(threads):
            made = in_main_thread(delay, spend)
            threading.Thread(target=self._load, args=(made,), daemon=True).start()

    def _load(self, batches: Iterator[Batch]) -> None:
        for loaded in batches:
            self._queue.put(loaded)

    def __next__(self) -> Batch:
        return self._queue.get()


@dataclass(frozen=True)
class TorchStyle:
    """A data set with a length that collates its rows and can be iterated again.

    Attributes:
        read: Seconds to read each row.
        collate: Seconds to make each batch of its rows.
        batches: Batches of an epoch.
    """

    read: Delay
    collate: Delay
    batches: int = _LONG

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[Batch]:
        for number in range(self.batches):
            yield self._collate(number, [self._row(number * ROWS + n) for n in range(ROWS)])

    def _row(self, number: int) -> Array:
        wait(self.read(number))
        return row(number)

    def _collate(self, number: int, rows: Sequence[Array]) -> Batch:
        wait(self.collate(number))
        return collate(rows)
