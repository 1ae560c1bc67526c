"""From prepared data to batches: the whole recipe."""

from functools import partial
from pathlib import Path

import grain

from netpipe.config import PipelineConfig
from netpipe.data.sampling.context_order import MAX_CONTEXTS, BlockOrder, RowOrder, contexts_per_row
from netpipe.data.sampling.draws import read_block
from netpipe.data.sampling.sampler import TOKENS_PER_MEASUREMENT, read_rows, sample
from netpipe.data.sources.probe_rows import RowSource, open_source
from netpipe.data.tokens.batches import concatenate, widen
from netpipe.data.tokens.packing import fill, likely_contexts, pack
from netpipe.data.tokens.tokenizer import encode
from netpipe.errors import InputError
from netpipe.grain_workers import let_grain_start_workers

_MAX_BLOCK = 128
_ENDLESS = 1 << 60
_SHARED_FROM_BYTES = 1 << 19  # what is smaller costs less to copy than to share


def build(data: Path, config: PipelineConfig) -> grain.IterDataset:
    """Assemble the pipeline; rows are read only when it is iterated.

    A batch is a function of the seed and its place alone: the same with any number of workers.

    Args:
        data: A folder that was prepared, or one of parquet measurements (read once, to count).
        config: What to make of it.

    Returns:
        A dataset of batches (`netpipe.data.tokens.batches.Batch`), each int32 (batch_size,
        sequence_length).

    Raises:
        InputError: The data are damaged, or too few for one batch.
    """
    sequences = sequences_of_batches(data, config).to_iter_dataset(
        grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
    )
    if config.workers == 0:
        return grain.experimental.ThreadPrefetchIterDataset(
            sequences.map(widen), prefetch_buffer_size=config.worker_buffer_batches
        )
    let_grain_start_workers()
    workers = grain.MultiprocessingOptions(config.workers, config.worker_buffer_batches)
    sharing = grain.experimental.DatasetOptions(min_shm_size=_SHARED_FROM_BYTES)
    sequences = grain.experimental.WithOptionsIterDataset(sequences, sharing)
    # Behind the workers: a batch is twelve times the bytes of its sequences, and sending those
    # takes more of a processor's time than making a batch of them.
    return sequences.mp_prefetch(workers).map(widen)


def sequences_of_batches(data: Path, config: PipelineConfig) -> grain.MapDataset:
    """Return what becomes batches: for each of them its sequences, by the place of the batch.

    Raises:
        InputError: The data are damaged, or too few for one batch.
    """
    source = open_source(data, config.split)
    blocks = (_packed if config.packing else _unpacked)(source, data, config)
    return (
        blocks
        .slice(slice(config.shard_index, None, config.shard_count))
        .batch(_blocks_per_batch(config), batch_fn=concatenate)
    )  # fmt: skip


def _packed(source: RowSource, data: Path, config: PipelineConfig) -> grain.MapDataset:
    """Return blocks of full sequences; each row is in one block of an epoch."""
    target = config.sequence_length // TOKENS_PER_MEASUREMENT
    sequences, length = _block_size(config), config.sequence_length
    likely = likely_contexts(
        source.row_measurements, target=target, sequences=sequences, sequence_length=length
    )
    at_once = _blocks_per_batch(config) * config.shard_count
    contexts = int(contexts_per_row(source.row_measurements).sum())
    _require_contexts(data, config, contexts, at_least=MAX_CONTEXTS * at_once)
    blocks_per_epoch = at_once * max(1, contexts // (at_once * max(likely, MAX_CONTEXTS)))
    order = RowOrder(
        source.row_measurements,
        seed=config.seed,
        blocks_per_epoch=blocks_per_epoch,
        blocks=blocks_per_epoch * (config.epochs or _ENDLESS // blocks_per_epoch),
        row_group=source.row_group,
    )
    return (
        grain.MapDataset.source(order)
        .map(partial(read_block, source))
        .map(
            partial(
                pack,
                seed=config.seed,
                target=target,
                sequences=sequences,
                sequence_length=length,
                at_first=likely,
            )
        )
    )


def _unpacked(source: RowSource, data: Path, config: PipelineConfig) -> grain.MapDataset:
    """Return blocks of sequences with one context each; what fills no batch at last is left out."""
    at_once = config.batch_size * config.shard_count
    in_epoch = int(contexts_per_row(source.row_measurements).sum())
    contexts = in_epoch * (config.epochs or _ENDLESS // in_epoch)
    _require_contexts(data, config, contexts, at_least=at_once)
    order = BlockOrder(
        source.row_measurements,
        seed=config.seed,
        block_size=_block_size(config),
        blocks=contexts // at_once * at_once // _block_size(config),
        row_group=source.row_group,
    )
    target = config.sequence_length // TOKENS_PER_MEASUREMENT
    return (
        grain.MapDataset.source(order)
        .map(partial(read_rows, source))
        .map(partial(sample, seed=config.seed, target=target))
        .map(encode)
        .map(partial(fill, sequence_length=config.sequence_length))
    )


def _block_size(config: PipelineConfig) -> int:
    """Return the largest divisor of the batch size that keeps the arrays of a block in a cache."""
    sizes = range(1, _MAX_BLOCK + 1)
    return max(size for size in sizes if config.batch_size % size == 0)


def _blocks_per_batch(config: PipelineConfig) -> int:
    return config.batch_size // _block_size(config)


def _require_contexts(data: Path, config: PipelineConfig, found: int, *, at_least: int) -> None:
    if found < at_least:
        constraint = f"have {at_least} contexts for a batch of every host"
        way_out = "Take a smaller batch, or more epochs"
        raise InputError(data, f"split {config.split}", constraint, found, way_out)
