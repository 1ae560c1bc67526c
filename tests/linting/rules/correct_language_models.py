"""Pipelines as trainers of language models write them: MaxText, Tunix, Kauldron and others."""

from functools import partial
from typing import Any, Final

import grain

from tests.linting.rules.pipeline_parts import (
    BOTH,
    FEW_AHEAD,
    LENGTH,
    PAD,
    PAIRS,
    TEXTS,
    THREADS_READ_ELEMENTS,
    THROUGHPUT,
    TWO_WORKERS,
    UNTHREADED,
    CorrectPipeline,
    Halves,
    Shift,
    Short,
    Tokenize,
    correct,
    only_inputs,
    padded,
    parquet_files,
    shifted,
    text_of,
    tokenize,
    tokenize_pair,
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
    """Files are repeated; what is shuffled after that is a window of rows."""
    files = grain.MapDataset.source(parquet_files()).shuffle(seed=7).repeat(2)[0::1]
    rows = grain.experimental.InterleaveIterDataset(
        files.map(grain.experimental.ParquetIterDataset), cycle_length=4
    )
    shuffled = grain.experimental.WindowShuffleIterDataset(rows, window_size=10, seed=7)
    return _batched_shifted_in_workers(shuffled.map(text_of).map(tokenize).map(padded))


@correct(f"{MAXTEXT} (grain_train_mixture_config_path)", THROUGHPUT)
def maxtext_named_mixture() -> Any:
    """A mixture by name, whose parts are shuffled, repeated and made iterable first."""
    parts = {"web": _texts(), "books": _texts()}
    mixed = grain.IterDataset.mix(parts, {"web": 0.75, "books": 0.25})
    return _batched_shifted_in_workers(mixed.map(tokenize).map(padded))


@correct(f"{MAXTEXT} (TokenizeAndChunk)", THROUGHPUT)
def maxtext_chunks() -> Any:
    """One text becomes several examples."""
    chunks = grain.experimental.FlatMapIterDataset(_texts(), Halves())
    return _batched_shifted_in_workers(chunks.map(tokenize).map(padded))


@correct(f"{MAXTEXT} (use_dpo)", THROUGHPUT)
def maxtext_preferences() -> Any:
    """Both sides of a preference are tokenized and padded alike; no packing, no shift."""
    pairs = grain.MapDataset.source(PAIRS).shuffle(seed=7).repeat(1).to_iter_dataset(UNTHREADED)
    examples = pairs.map(tokenize_pair).map(padded)
    return examples.batch(BATCH, batch_fn=PAD_BATCH).mp_prefetch(TWO_WORKERS)


@correct(f"{MAXTEXT} (_make_elastic_iterator)", BOTH)
def maxtext_elastic() -> Any:
    """Grain shards and batches itself, so that a checkpoint outlives a change of hosts."""
    return grain.experimental.ElasticIterator(
        grain.MapDataset.source(TEXTS).shuffle(seed=7).repeat().map(Tokenize()),
        global_batch_size=BATCH,
        shard_options=grain.sharding.NoSharding(),
        read_options=UNTHREADED,
        multiprocessing_options=TWO_WORKERS,
    )


@correct("AI-Hypercomputer/maxtext MaxText/input_pipeline/_grain_data_processing.py", THROUGHPUT)
def maxtext_data_loader() -> Any:
    """The older interface: a sampler, and a list of operations."""
    return grain.DataLoader(
        data_source=TEXTS,
        sampler=grain.samplers.IndexSampler(
            num_records=len(TEXTS),
            shard_options=grain.sharding.ShardOptions(0, 1, drop_remainder=True),
            shuffle=True,
            seed=7,
        ),
        operations=[Tokenize(), grain.transforms.Batch(BATCH, drop_remainder=True), Shift()],
        worker_count=2,
        read_options=UNTHREADED,
    )


@correct("google/tunix tunix/cli/utils/data.py (post_init_dataset)", BOTH)
def tunix_prompts() -> Any:
    """The trainer is given a MapDataset: batches, as many as wanted, epochs of them."""
    batches = grain.MapDataset.source(TEXTS).shuffle(seed=42).map(Tokenize()).batch(BATCH)
    return batches[:6].repeat(2).to_iter_dataset(FEW_AHEAD)


@correct(
    "google/tunix tunix/cli/utils/data.py (max_prompt_length)",
    BOTH,
    THREADS_READ_ELEMENTS,
)
def tunix_limited() -> Any:
    """A filter, the batch, and a limit on the number of batches, without workers."""
    prompts = grain.MapDataset.source(TEXTS).filter(Short()).to_iter_dataset(FEW_AHEAD)
    batches = prompts.map(Tokenize()).batch(BATCH)
    limited = grain.experimental.LimitIterDataset(batches, count=3)
    return grain.experimental.ThreadPrefetchIterDataset(limited, prefetch_buffer_size=2)


@correct("google-research/kauldron kauldron/data/py/base.py", THROUGHPUT)
def kauldron() -> Any:
    """A shard first, then its shuffle; repeat at the end of the random access part."""
    shard = grain.MapDataset.source(TEXTS).seed(3)[0::2].shuffle(seed=5).map(Tokenize())
    endless = shard.repeat().to_iter_dataset(UNTHREADED)
    return endless.batch(BATCH, drop_remainder=True).mp_prefetch(TWO_WORKERS)


@correct("apple/axlearn axlearn/common/input_grain.py", BOTH)
def axlearn() -> Any:
    """Concatenated sources, shuffled before the repeat, batched with random access."""
    parts = [grain.MapDataset.source(part) for part in (TEXTS[:15], TEXTS[15:])]
    examples = grain.MapDataset.concatenate(parts).shuffle(seed=1).repeat().map(Tokenize())
    return examples.batch(BATCH).to_iter_dataset(UNTHREADED).mp_prefetch(TWO_WORKERS)


@correct("NX-AI/xlstm-jax xlstm_jax/dataset/grain_iterator.py (use_thread_prefetch)", BOTH)
def xlstm_by_thread() -> Any:
    """A mixture that is packed and batched in the training process, one thread ahead."""
    mixed = grain.IterDataset.mix([_texts().map(tokenize), _texts().map(tokenize)])
    batches = _packed(mixed).map(only_inputs).map(shifted).batch(BATCH, drop_remainder=True)
    return grain.experimental.ThreadPrefetchIterDataset(batches, prefetch_buffer_size=2)


LANGUAGE_MODELS: Final[tuple[CorrectPipeline, ...]] = (
    maxtext_first_fit,
    maxtext_default_threads,
    maxtext_concat_then_split,
    maxtext_parquet,
    maxtext_named_mixture,
    maxtext_chunks,
    maxtext_preferences,
    maxtext_elastic,
    maxtext_data_loader,
    tunix_prompts,
    tunix_limited,
    kauldron,
    axlearn,
    xlstm_by_thread,
)
