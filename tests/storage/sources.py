"""Sources and loaders as users write them; worker processes import them from here."""

from collections.abc import Iterator, Sequence
from typing import Any

import grain
import numpy as np

from netpipe.storage import stand_in


class Rows:
    """A hundred records of 8 kB."""

    def __init__(self, first: int = 0) -> None:
        self.first = first

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: int) -> "np.ndarray[Any, Any]":
        return np.full(1000, self.first + index)

    def named(self, index: int) -> str:
        """Return a computed value, which no storage holds."""
        return f"row {index}"


class TorchRows(Rows):
    """Rows of which torch's DataLoader reads several at once."""

    def __getitems__(self, indices: Sequence[int]) -> list["np.ndarray[Any, Any]"]:
        return list(map(self.__getitem__, indices))


class GrainRows(Rows):
    """Rows of which Grain's batches read several at once."""

    def _getitems(self, indices: Sequence[int]) -> list["np.ndarray[Any, Any]"]:
        return list(map(self.__getitem__, indices))


def batches() -> grain.IterDataset[Any]:
    """Return a Grain pipeline."""
    return grain.MapDataset.source(Rows()).to_iter_dataset(grain.ReadOptions(2, 4)).batch(10)


def in_workers() -> grain.IterDataset[Any]:
    """Return a Grain pipeline with worker processes."""
    return batches().mp_prefetch(grain.MultiprocessingOptions(num_workers=2))


def mixed() -> grain.MapDataset[Any]:
    """Return a mix of two sources."""
    return grain.MapDataset.mix([grain.MapDataset.source(Rows(first)) for first in (0, 1000)])


def data_loader() -> grain.DataLoader:
    """Return a Grain DataLoader."""
    sampler = grain.samplers.SequentialSampler(100, shard_options=grain.sharding.NoSharding())
    return grain.DataLoader(data_source=Rows(), sampler=sampler, worker_count=0)


def elastic() -> grain.experimental.ElasticIterator:
    """Return a Grain ElasticIterator."""
    shards = grain.sharding.NoSharding()
    return grain.experimental.ElasticIterator(grain.MapDataset.source(Rows()), 10, shards)


SHARED = grain.MapDataset.source(Rows())


def shared() -> grain.MapDataset[Any]:
    """Return the same pipeline in each call."""
    return SHARED


def plain(workers: int = 0) -> Iterator[Any]:
    """Return an iterator that is not Grain's, with a wrapped source."""
    rows = stand_in(Rows(workers))
    return (rows[index] for index in range(100))


def stream(workers: int = 0) -> Iterator[Any]:
    """Yield records in the order of a shard, like webdataset."""
    yield from map(Rows().__getitem__, range(workers, 100))


class OwnDataset(grain.MapDataset[Any]):  # type: ignore[misc]  # grain has no types
    """A user's own dataset that reads by itself."""

    def __len__(self) -> int:
        return 100

    def __getitem__(self, index: Any) -> Any:
        return index


def half_own() -> grain.MapDataset[Any]:
    """Return a mix of a source and a dataset that reads by itself."""
    return grain.MapDataset.mix([grain.MapDataset.source(Rows()), OwnDataset()])


def of_names() -> grain.MapDataset[Any]:
    """Return a pipeline whose map reads the names in a list."""
    return grain.MapDataset.source(list(range(100))).map(Rows().__getitem__)


def computed() -> grain.MapDataset[Any]:
    """Return a pipeline whose map reads."""
    return grain.MapDataset.range(100).map(Rows().__getitem__)
