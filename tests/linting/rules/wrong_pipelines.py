"""Pipelines that look like the correct ones, each with one thing in the wrong place."""

import threading
from functools import partial
from typing import Any, Final

import grain
import jax
import numpy as np

from tests.linting.rules.correct_others import as_jax
from tests.linting.rules.pipeline_parts import (
    IMAGES,
    TEXTS,
    TWO_WORKERS,
    UNTHREADED,
    Tokenize,
    WrongPipeline,
    is_short,
    scaled,
    wrong,
)


def _examples() -> Any:
    return grain.MapDataset.source(TEXTS).shuffle(seed=1).map(Tokenize())


def _batches() -> Any:
    return _examples().repeat().to_iter_dataset(UNTHREADED).batch(4)


@wrong("batch-after-mp-prefetch", "error")
def batch_of_a_mixture() -> Any:
    """Each branch has its workers, but the batch is made above the mixture."""
    branches = [_examples().to_iter_dataset(UNTHREADED).mp_prefetch(TWO_WORKERS) for _ in range(2)]
    return grain.IterDataset.mix(branches).batch(4)


@wrong("map-after-mp-prefetch", "error")
def map_behind_a_thread() -> Any:
    """A thread after the workers does not make a plain map cheaper."""
    in_workers = _batches().mp_prefetch(TWO_WORKERS)
    ahead = grain.experimental.ThreadPrefetchIterDataset(in_workers, prefetch_buffer_size=2)
    return ahead.map(dict)


@wrong("nested-mp-prefetch", "error")
def workers_in_one_branch() -> Any:
    """One branch of a mixture has workers of its own, and the mixture has workers too."""
    mixed = grain.IterDataset.mix([_batches().mp_prefetch(TWO_WORKERS), _batches()])
    return mixed.mp_prefetch(TWO_WORKERS)


@wrong("threads-in-workers", "warning")
def default_reads_below_a_mixture() -> Any:
    """The default of 16 threads, once in each branch."""
    branches = [_examples().repeat().to_iter_dataset() for _ in range(2)]
    return grain.IterDataset.mix(branches).batch(4).mp_prefetch(TWO_WORKERS)


@wrong("threads-in-workers", "warning")
def elastic_with_default_reads() -> Any:
    """What an ElasticIterator does in its workers can be seen in its arguments only."""
    return grain.experimental.ElasticIterator(
        _examples().repeat(),
        global_batch_size=4,
        shard_options=grain.sharding.NoSharding(),
        multiprocessing_options=TWO_WORKERS,
    )


@wrong("batch-in-workers-loses-data", "error")
def one_epoch_without_the_rest() -> Any:
    """Each worker of the DataLoader drops a rest of its own, from one epoch that ends."""
    return grain.DataLoader(
        data_source=TEXTS[:22],
        sampler=grain.samplers.IndexSampler(
            num_records=22, num_epochs=1, shard_options=grain.sharding.NoSharding()
        ),
        operations=[Tokenize(), grain.transforms.Batch(4, drop_remainder=True)],
        worker_count=2,
        read_options=UNTHREADED,
    )


@wrong("worker-count-changes-order", "error", "reproducible")
def filter_by_place() -> Any:
    """A filter with random access looks harmless: but each worker skips what it lacks."""
    kept = grain.MapDataset.source(TEXTS).filter(is_short).map(Tokenize())
    in_workers = kept.to_iter_dataset(UNTHREADED).mp_prefetch(TWO_WORKERS)
    return in_workers.batch(4)


@wrong("worker-count-changes-order", "error", "reproducible")
def mixture_in_workers() -> Any:
    """The batches are made by place, but they are mixed in the workers."""
    branches = [_examples().batch(4).to_iter_dataset(UNTHREADED) for _ in range(2)]
    return grain.IterDataset.mix(branches).mp_prefetch(TWO_WORKERS)


@wrong("worker-count-changes-order", "error", "reproducible")
def limit_in_workers() -> Any:
    """Each worker counts to the limit: two workers give twice as much."""
    batches = _examples().batch(4).to_iter_dataset(UNTHREADED)
    limited = grain.experimental.LimitIterDataset(batches, count=2)
    return limited.mp_prefetch(TWO_WORKERS)


@wrong("worker-count-changes-order", "error", "reproducible")
def repeat_in_workers() -> Any:
    """Each worker repeats its own part: the second epoch has another order."""
    batches = _examples()[:28].batch(4).to_iter_dataset(UNTHREADED)
    repeated = grain.experimental.RepeatIterDataset(batches, num_epochs=2)
    return repeated.mp_prefetch(TWO_WORKERS)


@wrong("shuffle-after-batch", "error")
def shuffle_of_batches() -> Any:
    """A map between the two does not help: whole batches are shuffled."""
    batches = grain.MapDataset.source(TEXTS).map(Tokenize()).batch(4).map(dict).shuffle(seed=1)
    return batches.to_iter_dataset(UNTHREADED).mp_prefetch(TWO_WORKERS)


@wrong("shuffle-after-repeat", "warning")
def shuffle_across_epochs() -> Any:
    """Two epochs are shuffled as one: an example may come twice before another comes at all."""
    examples = grain.MapDataset.source(IMAGES).repeat(2).map(scaled).shuffle(seed=1)
    return examples.batch(4).to_iter_dataset(UNTHREADED).mp_prefetch(TWO_WORKERS)


@wrong("sequential-slice-with-shuffle", "error", "reproducible")
def shuffled_stretches() -> Any:
    """Each worker shuffles only the stretch that it reads."""
    batches = _examples().batch(4).to_iter_dataset(UNTHREADED)
    return batches.mp_prefetch(TWO_WORKERS, sequential_slice=True)


def _lookup(example: Any, table: np.ndarray[Any, Any]) -> Any:
    return example | {"inputs": table[example["inputs"]]}


@wrong("large-capture", "warning")
def table_in_a_partial() -> Any:
    """A table of 64 MB travels to every worker with the function that it is bound to."""
    bound = partial(_lookup, table=np.zeros(16_000_000, np.float32))
    return _batches().map(bound).mp_prefetch(TWO_WORKERS)


@wrong("device-put-before-mp-prefetch", "error")
def device_put_in_workers() -> Any:
    """The right order for threads is the wrong one for workers."""
    on_device = grain.experimental.device_put(_batches(), jax.devices()[0])
    return on_device.mp_prefetch(TWO_WORKERS)


@wrong("jax-in-worker", "warning")
def jax_in_workers() -> Any:
    """The conversion that belongs behind the workers stands before them."""
    return _batches().map(as_jax).mp_prefetch(TWO_WORKERS)


@wrong("no-prefetch", "warning")
def nothing_ahead() -> Any:
    """No workers, no threads: every batch is made while the device waits."""
    return _batches()


@wrong("no-workers", "warning")
def zero_workers() -> Any:
    """mp_prefetch is there, and does nothing."""
    return _batches().mp_prefetch(grain.MultiprocessingOptions(num_workers=0))


@wrong("too-many-workers", "warning")
def sixteen_workers() -> Any:
    """More workers than the eight cores that the test claims."""
    return _batches().mp_prefetch(grain.MultiprocessingOptions(num_workers=16))


@wrong("oversized-read-buffer", "warning")
def buffer_of_batches() -> Any:
    """The default buffer of 500 elements is one of 500 batches."""
    batches = _examples().repeat().batch(4)
    return grain.experimental.ThreadPrefetchIterDataset(
        batches.to_iter_dataset(), prefetch_buffer_size=2
    )


@wrong("buffers-exceed-memory", "info")
def hundred_batches_ahead() -> Any:
    """Two workers hold 404 batches."""
    return _batches().mp_prefetch(grain.MultiprocessingOptions(2, per_worker_buffer_size=100))


@wrong("cannot-be-pickled", "error")
def lock_in_a_map() -> Any:
    """The function holds a lock, which no process can send to another."""
    return _batches().map(partial(_guarded, lock=threading.Lock())).mp_prefetch(TWO_WORKERS)


def _guarded(batch: Any, lock: threading.Lock) -> Any:
    with lock:
        return batch


WRONG: Final[tuple[WrongPipeline, ...]] = (
    batch_of_a_mixture,
    map_behind_a_thread,
    workers_in_one_branch,
    default_reads_below_a_mixture,
    elastic_with_default_reads,
    one_epoch_without_the_rest,
    filter_by_place,
    mixture_in_workers,
    limit_in_workers,
    repeat_in_workers,
    shuffle_of_batches,
    shuffle_across_epochs,
    shuffled_stretches,
    table_in_a_partial,
    device_put_in_workers,
    jax_in_workers,
    nothing_ahead,
    zero_workers,
    sixteen_workers,
    buffer_of_batches,
    lock_in_a_map,
)
