"""The pipeline from prepared data to batches."""

import gc
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import grain

from netpipe.errors import InputError
from netpipe.grain_access.worker_start import let_grain_start_workers
from netpipe.workload.config import PipelineConfig
from netpipe.workload.sampling.context_order import (
    MAX_CONTEXTS,
    BlockOrder,
    ContextBlock,
    Epochs,
    RowOrder,
)
from netpipe.workload.sampling.sampler import read_block, read_rows, sample
from netpipe.workload.sources.kept_rows import KeptRows
from netpipe.workload.sources.probe_rows import RowSource, open_source
from netpipe.workload.tokens.batches import (
    Batch,
    Sequences,
    concatenate,
    take_part,
    widen,
    widen_padded,
)
from netpipe.workload.tokens.packing import fill, likely_contexts, pack
from netpipe.workload.tokens.tokenizer import encode

# The arrays of a larger block do not fit in the processor's cache.
_MAX_BLOCK_SEQUENCES = 128
_ENDLESS_BLOCKS = 1 << 60
# Copying a smaller array costs less than sharing its memory.
_MIN_SHARED_BYTES = 1 << 19


@dataclass(frozen=True)
class Position:
    """The index of the next batch, and the number of sequences that are packed together.

    The seed and `block_sequences` determine the sequences in each batch, over all hosts.
    """

    batch: int
    block_sequences: int


def first_position(config: PipelineConfig) -> Position:
    """Return the position at which a new training run starts."""
    sizes = range(1, _MAX_BLOCK_SEQUENCES + 1)
    return Position(0, max(size for size in sizes if config.batch_size % size == 0))


def build(
    data: Path,
    config: PipelineConfig,
    position: Position | None = None,
    source: RowSource | None = None,
) -> grain.IterDataset:
    """Assemble the pipeline as a dataset of batches; rows are read only when it is iterated.

    A batch depends only on the seed and its own index, not on the number of workers. `position`
    must come from a training run with the same total batch size over all hosts. `source` is the
    result of `open_rows`.

    Raises:
        InputError: The data are damaged, or there is too little for one batch.
    """
    return _load(sequences_of_batches(data, config, position, source), config, widen)


def build_from_settings(data: str, settings: Mapping[str, Any], workers: int) -> grain.IterDataset:
    """Assemble the pipeline with settings from JSON and another number of workers."""
    return build(Path(data), PipelineConfig(**{**settings, "workers": workers}))


def open_rows(
    data: Path, config: PipelineConfig, wrap: Callable[[RowSource], RowSource] | None = None
) -> RowSource:
    """Open the rows of a split, and keep the first `row_cache_mb` MiB of them in memory.

    `wrap` receives the source and returns the one to read from instead.
    """
    source = open_source(data, config.split)
    source = wrap(source) if wrap else source
    return KeptRows(source, config.row_cache_mb << 20) if config.row_cache_mb else source


def build_evaluation(data: Path, config: PipelineConfig) -> grain.IterDataset:
    """Assemble the pipeline for evaluation: every context once, in the same order each time.

    All hosts have the same number of batches. Each sequence holds one context; padding, whose
    segmentation is 0, fills the last batches. `packing` and `epochs` are ignored.
    """
    source = open_rows(data, config)
    epoch = Epochs(source.row_measurements, seed=None)
    contexts = epoch.contexts_per_epoch
    batches = -(-contexts // (config.batch_size * config.shard_count))
    order = BlockOrder(epoch, config.batch_size, batches * config.shard_count, contexts)
    sequences = (
        grain.MapDataset.source(order)
        .slice(slice(config.shard_index, None, config.shard_count))
        .map(partial(_make_evaluated, source, seed=config.seed, length=config.sequence_length))
    )
    padded = partial(widen_padded, batch_size=config.batch_size, length=config.sequence_length)
    return _load(sequences, config, padded)


def _make_evaluated(source: RowSource, block: ContextBlock, *, seed: int, length: int) -> Sequences:
    """Make the sequences of an evaluation batch, which may have none."""
    if not len(block.row):
        return {}
    contexts = sample(read_rows(source, block), seed=seed, sequence_length=length)
    return fill(encode(contexts), sequence_length=length)


def _load(
    batches: grain.MapDataset, config: PipelineConfig, make_batch: Callable[[Sequences], Batch]
) -> grain.IterDataset:
    """Return a dataset of batches: workers make the sequences, and this process widens them."""
    sequences = batches.to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    if config.workers == 0:
        return grain.experimental.ThreadPrefetchIterDataset(
            sequences.map(make_batch), prefetch_buffer_size=config.worker_buffer_batches
        )
    let_grain_start_workers()
    workers = grain.MultiprocessingOptions(config.workers, config.worker_buffer_batches)
    sharing = grain.experimental.DatasetOptions(min_shm_size=_MIN_SHARED_BYTES)
    sequences = grain.experimental.WithOptionsIterDataset(sequences, sharing)
    # `widen` runs in this process: its result is twelve times as large as the sequences, and
    # sending it would take more CPU time than making it.
    return sequences.mp_prefetch(workers, _freeze_imports).map(make_batch)


def _freeze_imports(_worker: int, _workers: int) -> None:
    """Exempt what a worker imported from garbage collection, which takes 0.25 s at its exit."""
    gc.freeze()


def sequences_of_batches(
    data: Path,
    config: PipelineConfig,
    position: Position | None = None,
    source: RowSource | None = None,
) -> grain.MapDataset:
    """Return a dataset of the sequences of each batch; raise an InputError for too little data."""
    source = source or open_rows(data, config)
    epochs = Epochs(source.row_measurements, seed=config.seed, row_group=source.row_group)
    position = position or first_position(config)
    sequences = position.block_sequences
    build_blocks = _build_packed_blocks if config.packing else _build_unpacked_blocks
    blocks = build_blocks(source, epochs, data, config, sequences)
    blocks_per_step = config.batch_size * config.shard_count // sequences  # of all hosts
    first = position.batch * blocks_per_step
    if sequences > config.batch_size:  # Each block is now shared by several hosts.
        hosts = sequences // config.batch_size
        block, part = divmod(config.shard_index, hosts)
        taken = blocks.slice(slice(first + block, None, config.shard_count // hosts))
        return taken.map(partial(take_part, part=part, sequences=config.batch_size))
    return (
        blocks
        .slice(slice(first + config.shard_index, None, config.shard_count))
        .batch(config.batch_size // sequences, batch_fn=concatenate)
    )  # fmt: skip


def _build_packed_blocks(
    source: RowSource, epochs: Epochs, data: Path, config: PipelineConfig, sequences: int
) -> grain.MapDataset:
    """Return blocks of full sequences; each row is in exactly one block of an epoch.

    An epoch is cut into a whole number of steps, in blocks with about equally many contexts.
    """
    contexts_per_block = likely_contexts(
        source.row_measurements, sequences=sequences, sequence_length=config.sequence_length
    )
    blocks_per_step = config.batch_size * config.shard_count // sequences  # of all hosts
    contexts = epochs.contexts_per_epoch
    _require_contexts(data, config, contexts, at_least=MAX_CONTEXTS * blocks_per_step)
    contexts_per_step = blocks_per_step * max(contexts_per_block, MAX_CONTEXTS)
    per_epoch = blocks_per_step * max(1, contexts // contexts_per_step)
    blocks = per_epoch * (config.epochs or _ENDLESS_BLOCKS // per_epoch)
    order = RowOrder(epochs, blocks_per_epoch=per_epoch, blocks=blocks)
    packing = partial(
        pack,
        seed=config.seed,
        sequences=sequences,
        sequence_length=config.sequence_length,
        at_first=contexts_per_block,
    )
    return (
        grain.MapDataset.source(order)
        .map(partial(read_block, source))
        .map(packing)
    )  # fmt: skip


def _build_unpacked_blocks(
    source: RowSource, epochs: Epochs, data: Path, config: PipelineConfig, sequences: int
) -> grain.MapDataset:
    """Return blocks of sequences with one context each; an incomplete last batch is dropped."""
    per_epoch = epochs.contexts_per_epoch
    contexts = per_epoch * (config.epochs or _ENDLESS_BLOCKS // per_epoch)
    contexts_per_step = config.batch_size * config.shard_count
    _require_contexts(data, config, contexts, at_least=contexts_per_step)
    blocks = contexts // contexts_per_step * contexts_per_step // sequences
    order = BlockOrder(epochs, block_size=sequences, blocks=blocks, contexts=contexts)
    return (
        grain.MapDataset.source(order)
        .map(partial(read_rows, source))
        .map(partial(sample, seed=config.seed, sequence_length=config.sequence_length))
        .map(encode)
        .map(partial(fill, sequence_length=config.sequence_length))
    )


def _require_contexts(data: Path, config: PipelineConfig, found: int, *, at_least: int) -> None:
    if found < at_least:
        constraint = f"have {at_least} contexts for a batch of every host"
        remedy = "Take a smaller batch, or more epochs"
        raise InputError(data, f"split {config.split}", constraint, found, remedy)
