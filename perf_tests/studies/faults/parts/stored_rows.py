"""Grain pipelines whose source is in a storage stand-in."""

from dataclasses import dataclass
from functools import cache
from math import exp, log
from random import Random
from typing import Any, Final

import grain
import numpy as np

from netpipe.storage import stand_in
from perf_tests.studies.faults.parts.batches import ROWS, Array, collate, row
from perf_tests.studies.faults.parts.grain_loaders import IN_MAIN_THREAD

SMALL_BYTES: Final = 10e3
LARGE_BYTES: Final = 200e3
_ROWS_IN_ALL: Final = 100_000_000
_SIZES: Final = 4.0  # the largest record over the smallest
_TAIL: Final = 3.0  # the 99th percentile of a latency over its median
# The logarithm of a latency is normal, and 2.326 is the 99th percentile of a standard normal.
_MEAN_OVER_MEDIAN: Final = exp((log(_TAIL) / 2.326) ** 2 / 2)
_MB: Final = 1e6


@dataclass(frozen=True)
class Records:
    """A source of records whose sizes are log-uniform over a factor of four.

    Attributes:
        mean_bytes: Mean size of a record.
        records: Number of records.
    """

    mean_bytes: float = SMALL_BYTES
    records: int = _ROWS_IN_ALL

    def __len__(self) -> int:
        return self.records

    def __getitem__(self, number: int) -> dict[str, Array]:
        smallest = self.mean_bytes * log(_SIZES) / (_SIZES - 1)
        size = int(smallest * _SIZES ** Random(number).random())
        return {"row": row(number), "payload": _noise(int(_SIZES * smallest) + 1)[:size]}


@dataclass(frozen=True)
class Shards:
    """Records that are read from shards in turn, `together` at a time.

    Attributes:
        shards: Sources of the same records, with different speeds.
        together: Records that are read from one shard before the next.
    """

    shards: tuple[Any, ...]
    together: int

    def __len__(self) -> int:
        return _ROWS_IN_ALL

    def __getitem__(self, number: int) -> dict[str, Array]:
        found: dict[str, Array] = self.shards[number // self.together % len(self.shards)][number]
        return found


@cache
def _noise(size_bytes: int) -> Array:
    return np.frombuffer(np.random.default_rng(0).bytes(size_bytes), np.uint8)


def threads(number: int) -> grain.ReadOptions:
    """Return the options for `number` Grain threads, each of which makes a batch."""
    return grain.ReadOptions(num_threads=number, prefetch_buffer_size=number)


def latency(mean_s: float) -> str:
    """Return the settings of a latency with this mean: a median and a 99th percentile."""
    median_us = 1e6 * mean_s / _MEAN_OVER_MEDIAN
    return f"latency={median_us:.3f}us,tail={_TAIL * median_us:.3f}us"


def bandwidth(bytes_per_s: float) -> str:
    """Return the setting of a total bandwidth."""
    return f"bandwidth={bytes_per_s / _MB:.3f}MB/s"


def batched(source: Any, reads: grain.ReadOptions = IN_MAIN_THREAD) -> grain.IterDataset:
    """Return a pipeline that batches a source's rows and repeats."""
    rows = grain.MapDataset.source(source).repeat().map(_take_row)
    return rows.batch(ROWS, batch_fn=collate).to_iter_dataset(reads)


def stored(
    settings: str,
    reads: grain.ReadOptions = IN_MAIN_THREAD,
    records: Records = Records(),
    workers: int = 0,
) -> grain.IterDataset:
    """Return a pipeline of records in an object store with these settings.

    All loaders of a session share the storage, its limits and its cache.
    """
    batches = batched(stand_in(records, f"object-store,{settings}"), reads)
    if workers == 0:
        return batches
    options = grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=1)
    return batches.mp_prefetch(options)


def in_shards(
    fast_s: float, slower: float, together: int, reads: grain.ReadOptions = IN_MAIN_THREAD
) -> grain.IterDataset:
    """Return a pipeline that reads eight shards, one of them slower.

    Args:
        fast_s: Mean seconds of a read from the other shards.
        slower: Latency of the slow shard, as a multiple of the others'.
        together: Records that are read from one shard before the next.
        reads: Options for Grain's threads.
    """
    latencies_s = [*[fast_s] * 7, slower * fast_s]
    shards = tuple(stand_in(Records(), f"object-store,{latency(mean_s)}") for mean_s in latencies_s)
    return batched(Shards(shards, together), reads)


def _take_row(record: dict[str, Array]) -> Array:
    return record["row"]
