"""Grain pipelines with time planted in their source, their map or their batching."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import grain

from perf_tests.studies.faults.parts.batches import ROWS, Array, Batch, collate, row
from perf_tests.studies.faults.parts.delays import Delay, Spend, Steady, wait

_ROWS_IN_ALL = 100_000_000
_NOTHING = Steady(0.0)
IN_MAIN_THREAD = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)


@dataclass(frozen=True)
class Rows:
    """A source whose rows take time to read."""

    delay: Delay = _NOTHING

    def __len__(self) -> int:
        return _ROWS_IN_ALL

    def __getitem__(self, number: int) -> Array:
        wait(self.delay(number))
        return row(number)


@dataclass(frozen=True)
class Transform:
    """A transform of rows or batches whose time depends on their number."""

    delay: Delay
    spend: Spend = wait

    def __call__(self, number: int, value: object) -> object:
        """Return the value unchanged, after the delay."""
        self.spend(self.delay(number))
        return value


@dataclass(frozen=True)
class Collate:
    """A batch function that takes time."""

    delay: Delay = _NOTHING

    def __call__(self, rows: Sequence[Array]) -> Batch:
        """Stack the rows after the delay."""
        wait(self.delay(int(rows[0][0])))
        return collate(rows)


@dataclass(frozen=True)
class DataLoaderMap(grain.transforms.Map):  # type: ignore[misc]  # Grain has no types
    """The transform of rows that a Grain DataLoader takes."""

    delay: Delay
    spend: Spend = wait

    def map(self, element: Array) -> Array:
        """Return the row unchanged, after the delay."""
        self.spend(self.delay(int(element[0])))
        return element


@dataclass(frozen=True)
class Stages:
    """The seconds that each stage of a pipeline takes.

    Attributes:
        read: Seconds per row.
        transform: Seconds per row, or per batch if `by_batch`.
        stack: Seconds per batch.
        spend: How the transform spends its time.
        by_batch: Whether the transform comes after the batching.
        source: A source that replaces the rows that take `read`.
        change: One more transform of batches, which gets their number.
    """

    read: Delay = _NOTHING
    transform: Delay = _NOTHING
    stack: Delay = _NOTHING
    spend: Spend = wait
    by_batch: bool = False
    source: Rows | None = None
    change: Callable[[int, Batch], Batch] | None = None

    def map_dataset(self) -> grain.MapDataset:
        """Return the part of the pipeline that Grain can index."""
        batches = self._batches()
        return batches if self.change is None else batches.map_with_index(self.change)

    def _batches(self) -> grain.MapDataset:
        rows = grain.MapDataset.source(self.source or Rows(self.read))
        transform = Transform(self.transform, self.spend)
        if self.by_batch:
            return rows.batch(ROWS, batch_fn=Collate(self.stack)).map_with_index(transform)
        return rows.map_with_index(transform).batch(ROWS, batch_fn=Collate(self.stack))

    def iter_dataset(self, read_options: grain.ReadOptions = IN_MAIN_THREAD) -> grain.IterDataset:
        """Return the pipeline as a trainer iterates it."""
        return self.map_dataset().to_iter_dataset(read_options)

    def in_workers(self, workers: int, buffer: int = 1) -> grain.IterDataset:
        """Return the pipeline in workers that buffer `buffer` batches each."""
        options = grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=buffer)
        return self.iter_dataset().mp_prefetch(options)


def data_loader(delay: Delay, workers: int) -> grain.DataLoader:
    """Return a Grain DataLoader whose transform takes `delay` seconds for each row."""
    return grain.DataLoader(
        data_source=Rows(),
        sampler=grain.samplers.IndexSampler(_ROWS_IN_ALL, shuffle=False, num_epochs=1),
        operations=[DataLoaderMap(delay), grain.transforms.Batch(ROWS, batch_fn=collate)],
        worker_count=workers,
        read_options=grain.ReadOptions(num_threads=1, prefetch_buffer_size=2),
    )
