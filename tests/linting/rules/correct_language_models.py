"""Pipelines as trainers of language models write them: MaxText, Tunix, Kauldron and others."""

from functools import partial
from typing import Any, Final

import grain

from tests.linting.rules.pipeline_parts import (
    BOTH,
    LENGTH,
    PAD,
    TEXTS,
    THROUGHPUT,
    TWO_WORKERS,
    UNTHREADED,
    Tokenize,
    correct,
    only_inputs,
    padded,
    parquet_files,
    shifted,
    text_of,
    tokenize,
)

MAXTEXT: Final = "AI-Hypercomputer/maxtext src/maxtext/input_pipeline/grain_data_processing.py"
LENGTHS: Final = {"inputs": LENGTH, "targets": LENGTH}
BATCH: Final = 4
PAD_BATCH: Final = partial(grain.experimental.batch_and_pad, batch_size=BATCH, pad_value=PAD)


def _texts(read_options: Any = UNTHREADED, epochs: int | None = None) -> Any:
    """MaxText's beginning: shuffle, repeat, this host's share, and on to an iterable."""
    shuffled = grain.MapDataset.source(TEXTS).shuffle(seed=7).repeat(epochs)
    return shuffled[0::1].to_iter_dataset(read_options)


def _packed(examples: Any) -> Any:
    return grain.experimental.FirstFitPackIterDataset(
        examples, length_struct=LENGTHS, num_packing_bins=BATCH
    )


def _batched_shifted_in_workers(examples: Any) -> Any:
    """MaxText's end: a batch that is padded, not dropped; the shift; mp_prefetch last."""
    return examples.batch(BATCH, batch_fn=PAD_BATCH).map(shifted).mp_prefetch(TWO_WORKERS)


@correct(f"{MAXTEXT} (grain_packing_type: first_fit)", THROUGHPUT)
def maxtext_first_fit() -> Any:
    """Pack, batch, shift, and mp_prefetch last."""
    packed = _packed(_texts().map(tokenize)).map(only_inputs)
    return _batched_shifted_in_workers(packed)


@correct(
    f"{MAXTEXT} (grain_num_threads at its default)",
    THROUGHPUT,
    {"threads-in-workers": "MaxText reads from a bucket, with 16 threads in each worker"},
)
def maxtext_default_threads() -> Any:
    """The same with threads that read in each worker."""
    packed = _packed(_texts(grain.ReadOptions()).map(tokenize)).map(only_inputs)
    return _batched_shifted_in_workers(packed)


@correct(f"{MAXTEXT} (grain_packing_type: concat_then_split)", THROUGHPUT)
def maxtext_concat_then_split() -> Any:
    """No padding at all: texts are joined and cut."""
    joined = grain.experimental.ConcatThenSplitIterDataset(
        _texts().map(tokenize), length_struct=LENGTHS
    )
    return _batched_shifted_in_workers(joined.map(only_inputs))


@correct(f"{MAXTEXT} (grain_file_type: parquet)", THROUGHPUT)
def maxtext_parquet() -> Any:
    """Files are repeated; after that, a window of rows is shuffled."""
    files = grain.MapDataset.source(parquet_files()).shuffle(seed=7).repeat(2)[0::1]
    rows = grain.experimental.InterleaveIterDataset(
        files.map(grain.experimental.ParquetIterDataset), cycle_length=4
    )
    shuffled = grain.experimental.WindowShuffleIterDataset(rows, window_size=10, seed=7)
    return _batched_shifted_in_workers(shuffled.map(text_of).map(tokenize).map(padded))


@correct(f"{MAXTEXT} (_make_elastic_iterator)", BOTH)
def maxtext_elastic() -> Any:
    """Grain shards and batches itself, so a checkpoint survives a change of hosts."""
    return grain.experimental.ElasticIterator(
        grain.MapDataset.source(TEXTS).shuffle(seed=7).repeat().map(Tokenize()),
        global_batch_size=BATCH,
        shard_options=grain.sharding.NoSharding(),
        read_options=UNTHREADED,
        multiprocessing_options=TWO_WORKERS,
    )
