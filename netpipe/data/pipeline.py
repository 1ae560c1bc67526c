"""From prepared data to batches: the whole recipe."""

import sys
from functools import partial
from pathlib import Path

import grain

from netpipe.config import PipelineConfig
from netpipe.data.order import BlockOrder, contexts_per_row
from netpipe.data.packing import concatenate, fill
from netpipe.data.sampler import TOKENS_PER_MEASUREMENT, read_rows, sample
from netpipe.data.sources import RowSource, open_source
from netpipe.data.tokenizer import encode
from netpipe.errors import InputError
from netpipe.grain_workers import let_grain_start_workers

_MAX_BLOCK = 32
_ENDLESS = sys.maxsize


def build(data: Path, config: PipelineConfig) -> grain.IterDataset:
    """Assemble the pipeline; rows are read only when it is iterated.

    A batch is a function of the seed and its place alone: the same with any number of workers.

    Args:
        data: A folder that was prepared, or one of parquet measurements (read once, to count).
        config: What to make of it.

    Returns:
        A dataset of batches (`netpipe.data.packing.Batch`), each int32 (batch_size,
        sequence_length); contexts that fill no batch at the end of the last epoch are left out.

    Raises:
        InputError: The data are damaged, or too few for one batch.
    """
    source = open_source(data, config.split)
    block_size = _block_size(config.batch_size)
    blocks_per_batch = config.batch_size // block_size
    order = BlockOrder(
        source.row_measurements,
        seed=config.seed,
        block_size=block_size,
        blocks=_batches(source, data, config) * blocks_per_batch * config.shard_count,
    )
    target = config.sequence_length // TOKENS_PER_MEASUREMENT
    batches = (
        grain.MapDataset.source(order)
        .slice(slice(config.shard_index, None, config.shard_count))
        .map(partial(read_rows, source))
        .map(partial(sample, seed=config.seed, target=target))
        .map(encode)
        .map(partial(fill, sequence_length=config.sequence_length))
        .batch(blocks_per_batch, batch_fn=concatenate)
        .to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
    )
    if config.workers == 0:
        return grain.experimental.ThreadPrefetchIterDataset(
            batches, prefetch_buffer_size=config.worker_buffer_batches
        )
    let_grain_start_workers()
    return batches.mp_prefetch(
        grain.MultiprocessingOptions(config.workers, config.worker_buffer_batches)
    )


def _block_size(batch_size: int) -> int:
    """Return the largest divisor of the batch size that is at most 32."""
    return max(size for size in range(1, _MAX_BLOCK + 1) if batch_size % size == 0)


def _batches(source: RowSource, data: Path, config: PipelineConfig) -> int:
    """Return how many batches each host gets: as many as the others."""
    contexts = int(contexts_per_row(source.row_measurements).sum())
    epochs = config.epochs or _ENDLESS // contexts
    batches = epochs * contexts // (config.batch_size * config.shard_count)
    if batches == 0:
        raise InputError(
            data,
            f"split {config.split}",
            f"have {config.batch_size * config.shard_count} contexts for a batch of every host",
            contexts * epochs,
            "Take a smaller batch, or more epochs",
        )
    return batches
