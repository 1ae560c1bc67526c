"""How each public transform of Grain is made, and the kind of node that it must become."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import grain
import jax
import numpy as np
from grain import python as legacy


class Double(grain.transforms.Map):  # type: ignore[misc]  # grain is untyped
    """A map."""

    def map(self, element: Any) -> Any:
        """Return twice the element."""
        return 2 * element


class Jitter(grain.transforms.RandomMap):  # type: ignore[misc]
    """A random map."""

    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """Return the element plus a random number."""
        return element + rng.integers(2)


class NumpyJitter(grain.transforms.TfRandomMap):  # type: ignore[misc]
    """A random map of the kind that was written for TensorFlow."""

    def np_random_map(self, element: Any, rng: np.random.Generator) -> Any:
        """Return the element plus a random number."""
        return element + rng.integers(2)


class Numbered(grain.transforms.MapWithIndex):  # type: ignore[misc]
    """A map that gets the index of an element."""

    def map_with_index(self, index: int, element: Any) -> Any:
        """Return the index and the element."""
        return index, element


class Odd(grain.transforms.Filter):  # type: ignore[misc]
    """A filter."""

    def filter(self, element: int) -> bool:
        """Keep odd elements."""
        return element % 2 == 1


class Twice(grain.experimental.FlatMapTransform):  # type: ignore[misc]
    """A flat map."""

    max_fan_out = 2

    def flat_map(self, element: Any) -> list[Any]:
        """Return it twice."""
        return [element, element]


class Selection(grain.transforms.DatasetSelectionMap):  # type: ignore[misc]
    """Takes everything from the first dataset."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[int, int]:
        return 0, index


def odd(element: int) -> bool:
    """Keep odd elements."""
    return element % 2 == 1


def add_random(element: int, rng: np.random.Generator) -> int:
    """Add a random number."""
    return element + int(rng.integers(2))


def pair(index: int, element: int) -> tuple[int, int]:
    """Return an element with its index."""
    return index, element


def batch_of(elements: Any) -> Any:
    """Stack elements, by hand."""
    return np.stack(elements)


PLACES: Final = grain.MapDataset.source(range(8))
WORKERS: Final = grain.MultiprocessingOptions(num_workers=2)
LENGTHS: Final = {"x": 8}
BATCH: Final[Any] = grain.transforms.Batch(2)


def stream() -> Any:
    """Return a new IterDataset, as mp_prefetch changes the one that it is called on."""
    return PLACES.to_iter_dataset()


def loader(operation: Any, workers: int = 2) -> Any:
    """Return a DataLoader with one operation."""
    return grain.DataLoader(
        data_source=range(8),
        sampler=grain.samplers.IndexSampler(8, num_epochs=1, seed=0),
        operations=[operation],
        worker_count=workers,
    )


Made = tuple[str, Callable[[], Any]]
x = grain.experimental

METHODS: Mapping[str, Made] = {
    "MapDataset.source": ("Source", lambda: grain.MapDataset.source(range(8))),
    "MapDataset.range": ("Source", lambda: grain.MapDataset.range(8)),
    "MapDataset.mix": ("Mix", lambda: grain.MapDataset.mix([PLACES, PLACES], [1, 2])),
    "MapDataset.select_from_datasets": (
        "Mix",
        lambda: grain.MapDataset.select_from_datasets([PLACES, PLACES], Selection()),
    ),
    "MapDataset.concatenate": ("Concatenate", lambda: grain.MapDataset.concatenate([PLACES] * 2)),
    "MapDataset.apply": ("Map", lambda: PLACES.apply([Double(), Double()])),
    "MapDataset.batch": ("Batch", lambda: PLACES.batch(2)),
    "MapDataset.filter": ("Filter", lambda: PLACES.filter(odd)),
    "MapDataset.map": ("Map", lambda: PLACES.map(odd)),
    "MapDataset.map_with_index": ("MapWithIndex", lambda: PLACES.map_with_index(pair)),
    "MapDataset.pipe": ("Slice", lambda: PLACES.pipe(lambda dataset: dataset[2:6])),
    "MapDataset.random_map": ("RandomMap", lambda: PLACES.random_map(add_random, seed=1)),
    "MapDataset.repeat": ("Repeat", lambda: PLACES.repeat(2)),
    "MapDataset.seed": ("Seed", lambda: PLACES.seed(1)),
    "MapDataset.shuffle": ("Shuffle", lambda: PLACES.shuffle(seed=1)),
    "MapDataset.slice": ("Slice", lambda: PLACES.slice(slice(2, 6))),
    "MapDataset.to_iter_dataset": ("ToIter", stream),
    "IterDataset.mix": ("Mix", lambda: grain.IterDataset.mix({"a": stream(), "b": stream()})),
    "IterDataset.apply": ("Map", lambda: stream().apply(Double())),
    "IterDataset.batch": ("Batch", lambda: stream().batch(2, batch_fn=batch_of)),
    "IterDataset.filter": ("Filter", lambda: stream().filter(odd)),
    "IterDataset.map": ("Map", lambda: stream().map(odd)),
    "IterDataset.map_with_index": ("MapWithIndex", lambda: stream().map_with_index(pair)),
    "IterDataset.mp_prefetch": ("ProcessPrefetch", lambda: stream().mp_prefetch(WORKERS)),
    "IterDataset.pipe": ("Batch", lambda: stream().pipe(lambda dataset: dataset.batch(2))),
    "IterDataset.prefetch": ("ProcessPrefetch", lambda: stream().prefetch(WORKERS)),
    "IterDataset.random_map": ("RandomMap", lambda: stream().random_map(add_random, seed=1)),
    "IterDataset.seed": ("Seed", lambda: stream().seed(1)),
}

EXPERIMENTAL: Mapping[str, Made] = {
    "BestFitPackIterDataset": (
        "Pack",
        lambda: x.BestFitPackIterDataset(stream(), length_struct=LENGTHS, num_packing_bins=2),
    ),
    "CacheIterDataset": ("Cache", lambda: x.CacheIterDataset(stream())),
    "ConcatThenSplitIterDataset": (
        "ConcatThenSplit",
        lambda: x.ConcatThenSplitIterDataset(stream(), length_struct=LENGTHS),
    ),
    "ElasticIterator": (
        "Elastic",
        lambda: x.ElasticIterator(PLACES, 2, grain.sharding.NoSharding()),
    ),
    "FirstFitPackIterDataset": (
        "Pack",
        lambda: x.FirstFitPackIterDataset(stream(), length_struct=LENGTHS, num_packing_bins=2),
    ),
    "FlatMapIterDataset": ("FlatMap", lambda: x.FlatMapIterDataset(stream(), Twice())),
    "FlatMapMapDataset": ("FlatMap", lambda: x.FlatMapMapDataset(PLACES, Twice())),
    "InterleaveIterDataset": (
        "Interleave",
        lambda: x.InterleaveIterDataset([stream(), stream()], cycle_length=2),
    ),
    "LimitIterDataset": ("Limit", lambda: x.LimitIterDataset(stream(), 4)),
    "ParquetIterDataset": ("Source", lambda: x.ParquetIterDataset("no.parquet")),
    "RebatchIterDataset": ("Rebatch", lambda: x.RebatchIterDataset(stream().batch(2), 4)),
    "RepeatIterDataset": ("Repeat", lambda: x.RepeatIterDataset(stream(), 2)),
    "TFRecordIterDataset": ("Source", lambda: x.TFRecordIterDataset("no.tfrecord")),
    "ThreadPrefetchIterDataset": (
        "ThreadPrefetch",
        lambda: x.ThreadPrefetchIterDataset(stream(), prefetch_buffer_size=2),
    ),
    "WindowShuffleIterDataset": (
        "WindowShuffle",
        lambda: x.WindowShuffleIterDataset(stream(), window_size=4, seed=1),
    ),
    "WindowShuffleMapDataset": (
        "WindowShuffle",
        lambda: x.WindowShuffleMapDataset(PLACES, window_size=4, seed=1),
    ),
    "WithOptionsIterDataset": (
        "Options",
        lambda: x.WithOptionsIterDataset(stream(), x.DatasetOptions(min_shm_size=1)),
    ),
    "ZipIterDataset": ("Zip", lambda: x.ZipIterDataset([stream(), stream()])),
    "ZipMapDataset": ("Zip", lambda: x.ZipMapDataset([PLACES, PLACES])),
    "apply_transformations": ("Batch", lambda: x.apply_transformations(PLACES, BATCH)),
    "batch_and_pad": ("Batch", lambda: stream().batch(2, batch_fn=x.batch_and_pad)),
    "device_put": ("ThreadPrefetch", lambda: x.device_put(stream(), jax.devices()[0])),
    "multithread_prefetch": ("MultithreadPrefetch", lambda: x.multithread_prefetch(stream(), 2, 1)),
}

TRANSFORMS: Mapping[str, tuple[str, Any]] = {
    "Batch": ("Batch", BATCH),
    "Filter": ("Filter", Odd()),
    "Map": ("Map", Double()),
    "MapWithIndex": ("MapWithIndex", Numbered()),
    "RandomMap": ("RandomMap", Jitter()),
    "FlatMap": ("FlatMap", Twice()),
}
ONLY_IN_A_DATA_LOADER: Final = {"TfRandomMap": ("Map", NumpyJitter())}
# A random map of a DataLoader is a Map: each record brings its generator along.
OPERATIONS: Mapping[str, tuple[str, Any]] = {
    "Batch": ("Batch", BATCH),
    "Filter": ("Filter", Odd()),
    "Map": ("Map", Double()),
    "RandomMap": ("Map", Jitter()),
    "FlatMap": ("FlatMap", Twice()),
    **ONLY_IN_A_DATA_LOADER,
    "MapOperation": ("Operation", legacy.MapOperation(odd)),
    "RandomMapOperation": ("Operation", legacy.RandomMapOperation(add_random)),
    "FilterOperation": ("Operation", legacy.FilterOperation(odd)),
    "BatchOperation": ("Batch", legacy.BatchOperation(2)),
    "PackAndBatchOperation": (
        "Operation",
        x.PackAndBatchOperation(length_struct=LENGTHS, batch_size=2),
    ),
}
TOP_LEVEL: Mapping[str, Made] = {
    "DataLoader": ("DataLoader", lambda: loader(Double())),
    "load": ("DataLoader", lambda: grain.load(range(8), batch_size=2, num_epochs=1)),
}

# Public names of Grain that make no dataset.
HELPERS: Final = {
    "grain": "DataLoaderIterator DatasetIterator IterDataset MapDataset MultiprocessingOptions "
    "ReadOptions Record RecordMetadata config",
    "grain.experimental": "BOSHandling DatasetOptions ExecutionTrackingMode FlatMapTransform "
    "MapWithIndexTransform PackAndBatchOperation PerformanceConfig RngPool ShapeDtypeStruct "
    "ShapeDtypeStructProtocol ThreadPrefetchDatasetIterator assert_equal_output_after_checkpoint "
    "get_element_spec get_next_index index_shuffle pick_performance_config set_next_index",
    "grain.transforms": "DatasetSelectionMap Transformation Transformations",
    "methods": "MapDataset.parents IterDataset.parents",
}
