"""Pipelines as Grain's own documents teach them."""

from typing import Any, Final

import grain
import jax

from tests.linting.rules.pipeline_parts import (
    BOTH,
    FEW_AHEAD,
    IMAGES,
    TEXTS,
    THREADS_READ_ELEMENTS,
    THROUGHPUT,
    TWO_WORKERS,
    UNTHREADED,
    Flip,
    Short,
    Tokenize,
    correct,
    is_short,
    parquet_files,
    scaled,
    text_of,
)

DOCS: Final = "google/grain docs/tutorials"


@correct(f"{DOCS}/dataset_basic_tutorial.md", BOTH)
def basics() -> Any:
    """Shuffle, map, batch, one shard of two, then read ahead with threads."""
    batches = grain.MapDataset.source(TEXTS).shuffle(seed=10).map(Tokenize()).batch(batch_size=2)
    return batches[0::2].to_iter_dataset(FEW_AHEAD)


@correct(f"{DOCS}/dataset_advanced_tutorial.md#checkpointing", BOTH)
def seeded_once() -> Any:
    """One seed for all random transformations."""
    examples = grain.MapDataset.source(IMAGES).seed(45).shuffle().random_map(Flip())
    return examples.batch(4).to_iter_dataset(UNTHREADED).mp_prefetch(TWO_WORKERS)


@correct(f"{DOCS}/dataset_advanced_tutorial.md#multi-epoch-training", BOTH)
def mixture_of_repeated() -> Any:
    """Each part of the mixture is shuffled, then repeated, so that no rest is thrown away."""
    halves = (TEXTS[:10], TEXTS[10:])
    parts = [grain.MapDataset.source(half).shuffle(seed=1).repeat() for half in halves]
    mixed = grain.MapDataset.mix(parts, weights=[0.7, 0.3]).map(Tokenize()).batch(4)
    return mixed.to_iter_dataset(UNTHREADED).mp_prefetch(TWO_WORKERS)


@correct(f"{DOCS}/dataset_advanced_tutorial.md#mixing-datasets", THROUGHPUT)
def mixture_of_filtered() -> Any:
    """Sparse parts are mixed as iterables; filtered elements are gone before the batch."""
    halves = (TEXTS[:20], TEXTS[20:])
    parts = [
        grain.MapDataset.source(half).filter(is_short).to_iter_dataset(UNTHREADED)
        for half in halves
    ]
    mixed = grain.IterDataset.mix(parts, weights=[0.7, 0.3]).map(Tokenize())
    return mixed.batch(4).mp_prefetch(TWO_WORKERS)


@correct(f"{DOCS}/data_sources/parquet_dataset_tutorial.md", BOTH)
def parquet_by_thread() -> Any:
    """Several files in one dataset, read ahead by one thread."""
    rows = grain.experimental.ParquetIterDataset(parquet_files())
    batches = rows.map(text_of).map(Tokenize()).batch(4, drop_remainder=True)
    return grain.experimental.ThreadPrefetchIterDataset(batches, prefetch_buffer_size=2)


def _images() -> Any:
    """The images in batches, as every section of the tutorial on training begins."""
    return grain.MapDataset.source(IMAGES).seed(42).shuffle().map(scaled).batch(8)


@correct(f"{DOCS}/jax_training_tutorial.md#option-c", BOTH)
def two_stage_prefetch() -> Any:
    """A buffer on the host and one on the device."""
    batches = _images().to_iter_dataset(UNTHREADED)
    return grain.experimental.device_put(
        batches, jax.devices()[0], cpu_buffer_size=4, device_buffer_size=2
    )


@correct(
    f"{DOCS}/jax_training_tutorial.md#template",
    BOTH,
    {"oversized-read-buffer": "it keeps Grain's default buffer, which is 500 batches here"},
)
def template() -> Any:
    """The tutorial's whole template, with the read options left at their default."""
    batches = grain.MapDataset.source(IMAGES).seed(42).shuffle().repeat().map(scaled).batch(8)
    return grain.experimental.device_put(batches.to_iter_dataset(), jax.devices()[0])


def _sampler(count: int, **settings: Any) -> Any:
    return grain.samplers.IndexSampler(
        num_records=count, shard_options=grain.sharding.NoSharding(), **settings
    )


@correct(
    "google/tunix tunix/examples/data/translation_dataset.py",
    BOTH,
    THREADS_READ_ELEMENTS,
)
def data_loader_without_workers() -> Any:
    """Supervised fine-tuning: a filter before the batch, all in the training process."""
    return grain.DataLoader(
        data_source=TEXTS,
        sampler=_sampler(len(TEXTS), num_epochs=1),
        operations=[Short(), Tokenize(), grain.transforms.Batch(4, drop_remainder=True)],
    )
