"""Correct pipelines that a hasty rule would blame: each has a mistake of other pipelines."""

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
    Tokenize,
    correct,
    scaled,
)


def _examples() -> Any:
    return grain.MapDataset.source(TEXTS).shuffle(seed=1).map(Tokenize())


def _batches() -> Any:
    """Endless batches, made by index."""
    return _examples().repeat().batch(4).to_iter_dataset(UNTHREADED)


def _to_global(batch: Any, sharding: Any) -> Any:
    return jax.make_array_from_process_local_data(sharding, batch)


@correct("google/flax examples/gemma/input_pipeline_grain.py (move_to_devices)", BOTH)
def put_by_a_helper() -> Any:
    """A map after the workers whose code does not name jax, but calls a function that does."""
    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0])
    return _batches().mp_prefetch(TWO_WORKERS).map(lambda batch: _to_global(batch, sharding))


class _ToDevice(grain.transforms.Map):  # type: ignore[misc]  # Grain is seen without its types
    def map(self, element: Any) -> Any:
        return jax.device_put(element)


@correct("mhyatt000/crossformer crossformer/data/grain/loader.py (shard_fn)", BOTH)
def put_by_a_transform() -> Any:
    """A map after the workers that is an object of the user's class."""
    return _batches().mp_prefetch(TWO_WORKERS).map(_ToDevice())


@jax.jit
def _brighter(batch: Any) -> Any:
    return batch | {"image": jnp.minimum(batch["image"] * 1.1, 1.0)}


@correct("mhyatt000/crossformer crossformer/data/grain/loader.py (do_frame_transforms)", BOTH)
def augmented_on_the_device() -> Any:
    """A map after the workers that is compiled: the accelerator does the work."""
    batches = grain.MapDataset.source(IMAGES).seed(5).shuffle().repeat().map(scaled).batch(4)
    in_workers = batches.to_iter_dataset(UNTHREADED).mp_prefetch(TWO_WORKERS)
    ahead = grain.experimental.ThreadPrefetchIterDataset(in_workers, prefetch_buffer_size=2)
    return ahead.map(_brighter)


@correct("mhyatt000/crossformer crossformer/data/grain/loader.py (to numpy)", BOTH)
def trees_in_workers() -> Any:
    """Workers that use jax only to walk a tree: that needs no device."""
    batches = _batches().map(lambda batch: jax.tree.map(np.asarray, batch))
    return batches.mp_prefetch(TWO_WORKERS)


@correct("google-research/kauldron kauldron/data/py/base.py (num_epochs)", THROUGHPUT)
def epochs_that_end() -> Any:
    """Two workers drop two remainders: six elements of three million."""
    numbers = grain.MapDataset.range(1_000_003).shuffle(seed=3).repeat(3)
    batches = numbers.to_iter_dataset(UNTHREADED).batch(4, drop_remainder=True)
    return batches.mp_prefetch(TWO_WORKERS)


@correct("open-mmlab/mmsegmentation docs/en/tutorials/customize_datasets.md, in Grain", BOTH)
def oversampled() -> Any:
    """A small source counts three times in each epoch: its repeat is a weight, not an epoch."""
    small, large = (grain.MapDataset.source(part) for part in (TEXTS[:5], TEXTS[5:]))
    epoch = grain.MapDataset.concatenate([small.repeat(3), large]).shuffle(seed=2)
    batches = epoch.repeat().map(Tokenize()).batch(4)
    return batches.to_iter_dataset(UNTHREADED).mp_prefetch(TWO_WORKERS)


class _Pairs(grain.MapDataset):  # type: ignore[misc]  # as above
    """A user's own dataset: each image with the one before it."""

    def __len__(self) -> int:
        return len(self._parent)

    def __getitem__(self, index: Any) -> Any:
        return {"image": self._parent[index]["image"], "last": self._parent[index - 1]["image"]}


@correct("mhyatt000/crossformer crossformer/data/grain/map/window.py", BOTH)
def own_random_access() -> Any:
    """A dataset class that Grain does not know comes before the workers."""
    pairs = _Pairs(grain.MapDataset.source(IMAGES)).shuffle(seed=4)
    return pairs.batch(4).to_iter_dataset(UNTHREADED).mp_prefetch(TWO_WORKERS)


@correct("google/grain docs/grain.experimental.rst (ZipMapDataset), views for contrast", BOTH)
def two_views_of_one_source() -> Any:
    """One source is read twice, with other random numbers, and both views are zipped."""
    images = grain.MapDataset.source(IMAGES).seed(8).shuffle()
    views = [images.random_map(Flip(), seed=seed).map(scaled) for seed in (1, 2)]
    zipped = grain.experimental.ZipMapDataset(views).repeat().batch(4)
    return zipped.to_iter_dataset(UNTHREADED).mp_prefetch(TWO_WORKERS)


@correct("google/grain issues 851 and 1129 (min_shm_size)", THROUGHPUT)
def options_before_workers() -> Any:
    """Options of the whole pipeline are a node between the batch and the workers."""
    batches = _examples().repeat().to_iter_dataset(UNTHREADED).batch(4)
    options = grain.experimental.DatasetOptions(min_shm_size=1 << 30)
    with_options = grain.experimental.WithOptionsIterDataset(batches, options)
    return with_options.mp_prefetch(TWO_WORKERS)
