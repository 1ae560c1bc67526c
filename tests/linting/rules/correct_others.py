"""Pipelines of images, episodes and branches, and the rarer of Grain's transformations."""

from typing import Any

import grain
import jax
import jax.numpy as jnp
import numpy as np

from tests.linting.rules.pipeline_parts import (
    BOTH,
    IMAGES,
    TEXTS,
    THROUGHPUT,
    TWO_WORKERS,
    UNTHREADED,
    Flip,
    Halves,
    Tokenize,
    correct,
    scaled,
)


def as_jax(batch: Any) -> Any:
    """The batch as arrays on the device."""
    return jax.tree.map(jnp.asarray, batch)


def _images() -> Any:
    return grain.MapDataset.source(IMAGES).seed(5).shuffle().repeat()


@correct("AshishKumar4/FlaxDiff flaxdiff/data/dataloaders.py", THROUGHPUT)
def image_loader() -> Any:
    """Augmentation, then the batch, in a DataLoader's workers."""
    return grain.DataLoader(
        data_source=IMAGES,
        sampler=grain.samplers.IndexSampler(
            num_records=len(IMAGES),
            shuffle=True,
            seed=0,
            shard_options=grain.sharding.ShardByJaxProcess(),
        ),
        operations=[Flip(), grain.transforms.Batch(4, drop_remainder=True)],
        worker_count=2,
        worker_buffer_size=2,
        read_options=UNTHREADED,
    )


@correct("https://github.com/google/grain/issues/1129 (batched before to_iter_dataset)", BOTH)
def images_with_random_access() -> Any:
    """Random augmentation and batching by index, so that workers change neither."""
    batches = _images().map(scaled).random_map(Flip()).batch(4, drop_remainder=True)
    in_workers = batches.to_iter_dataset(UNTHREADED).mp_prefetch(TWO_WORKERS)
    return grain.experimental.device_put(in_workers, jax.devices()[0])


@correct("mhyatt000/crossformer crossformer/data/grain/loader.py", THROUGHPUT)
def to_jax_behind_a_thread() -> Any:
    """Workers make batches, a thread takes them over, and jax sees them in the main process."""
    batches = _images().map(scaled).to_iter_dataset(UNTHREADED).batch(4, drop_remainder=True)
    in_workers = batches.mp_prefetch(TWO_WORKERS)
    ahead = grain.experimental.ThreadPrefetchIterDataset(in_workers, prefetch_buffer_size=2)
    return ahead.map(as_jax)


@correct(
    "google/grain docs/grain.dataset.rst (IterDataset.mix), workers for each branch", THROUGHPUT
)
def branches_with_workers_each() -> Any:
    """Two sources with workers of their own, mixed batch by batch."""
    branches = [
        grain.MapDataset.source(half)
        .shuffle(seed=1)
        .repeat()
        .map(Tokenize())
        .to_iter_dataset(UNTHREADED)
        .batch(4)
        .mp_prefetch(grain.MultiprocessingOptions(num_workers=1))
        for half in (TEXTS[:20], TEXTS[20:])
    ]
    mixed = grain.IterDataset.mix(branches, weights=[0.5, 0.5])
    return grain.experimental.ThreadPrefetchIterDataset(mixed, prefetch_buffer_size=2)


@correct("keras-team/keras keras/src/utils/timeseries_dataset_utils.py (Grain's backend)", BOTH)
def zipped_targets() -> Any:
    """Inputs and targets are zipped first, and shuffled as pairs."""
    inputs = grain.MapDataset.source(np.arange(80, dtype=np.float32).reshape(40, 2))
    targets = grain.MapDataset.source(np.arange(40))
    pairs = grain.experimental.ZipMapDataset([inputs, targets]).shuffle(seed=3)
    return pairs.batch(8).to_iter_dataset(UNTHREADED).mp_prefetch(TWO_WORKERS)


@correct("google/grain docs/grain.experimental.rst (multithread_prefetch)", THROUGHPUT)
def threads_that_share() -> Any:
    """Threads instead of workers, for Python without the interpreter lock."""
    batches = _images().to_iter_dataset(UNTHREADED).map(scaled).batch(4)
    return grain.experimental.multithread_prefetch(batches, num_threads=2, buffer_size=2)


@correct("google/grain CHANGELOG.md (alternative slicing for mp_prefetch)", THROUGHPUT)
def contiguous_slices() -> Any:
    """An evaluation in the order of the files: each worker reads one part."""
    batches = grain.MapDataset.source(TEXTS).map(Tokenize()).to_iter_dataset(UNTHREADED).batch(4)
    return batches.mp_prefetch(TWO_WORKERS, sequential_slice=True)


@correct("google/grain docs/grain.experimental.rst (FlatMapMapDataset)", THROUGHPUT)
def windows_of_episodes() -> Any:
    """Each element gives several, with random access; shuffled once more after that."""
    parts = grain.experimental.FlatMapMapDataset(grain.MapDataset.source(TEXTS), Halves())
    shuffled = parts.shuffle(seed=2).repeat().map(Tokenize())
    return shuffled.to_iter_dataset(UNTHREADED).batch(4).mp_prefetch(TWO_WORKERS)


@correct("google/grain docs/grain.experimental.rst (RebatchIterDataset)", THROUGHPUT)
def blocks_to_batches() -> Any:
    """Stored in blocks, read in blocks, and cut to the trainer's size in the workers."""
    blocks = grain.MapDataset.source(np.arange(160).reshape(20, 8)).shuffle(seed=4).repeat()
    elements = blocks.to_iter_dataset(UNTHREADED)
    batches = grain.experimental.RebatchIterDataset(elements, batch_size=4)
    return batches.mp_prefetch(TWO_WORKERS)


@correct("google/grain docs/grain.experimental.rst (WindowShuffleMapDataset)", BOTH)
def window_by_place() -> Any:
    """Neighbours stay near each other on disk, and the window is by index, not by worker."""
    window = grain.experimental.WindowShuffleMapDataset(
        grain.MapDataset.source(TEXTS), window_size=8, seed=6
    )
    batches = window.map(Tokenize()).batch(4)
    return batches.to_iter_dataset(UNTHREADED).mp_prefetch(TWO_WORKERS)
