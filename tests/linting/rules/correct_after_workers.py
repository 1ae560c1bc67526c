"""Pipelines with nodes after the workers on purpose, so that their number makes no difference."""

from collections.abc import Iterator
from typing import Any, Final

import grain

from tests.linting.rules.pipeline_parts import (
    LENGTH,
    REPRODUCIBLE,
    TEXTS,
    TWO_WORKERS,
    UNTHREADED,
    Tokenize,
    correct,
    is_short,
    only_inputs,
    shifted,
    tokenize,
)

BATCH: Final = 4


@correct("https://github.com/google/grain/issues/1129 (the comment on the order)", REPRODUCIBLE)
def batch_after_workers() -> Any:
    """The batch is made after the workers, so that their number cannot change it."""
    examples = grain.MapDataset.source(TEXTS).shuffle(seed=7).map(Tokenize())
    in_workers = examples.to_iter_dataset(UNTHREADED).mp_prefetch(TWO_WORKERS)
    batches = in_workers.batch(BATCH, drop_remainder=True).map(shifted)
    return grain.experimental.ThreadPrefetchIterDataset(batches, prefetch_buffer_size=2)


@correct("https://github.com/google/grain/issues/1129 (packing instead of the batch)", REPRODUCIBLE)
def pack_after_workers() -> Any:
    """Workers tokenize; examples are joined after them, because that depends on their order."""
    tokens = grain.MapDataset.source(TEXTS).shuffle(seed=7).repeat().map(tokenize)
    in_workers = tokens.to_iter_dataset(UNTHREADED).mp_prefetch(TWO_WORKERS)
    packed = grain.experimental.FirstFitPackIterDataset(
        in_workers, length_struct={"inputs": LENGTH, "targets": LENGTH}, num_packing_bins=BATCH
    )
    batches = packed.map(only_inputs).batch(BATCH).map(shifted)
    return grain.experimental.ThreadPrefetchIterDataset(batches, prefetch_buffer_size=2)


@correct("https://github.com/google/grain/issues/1129 (with a filter)", REPRODUCIBLE)
def filter_after_workers() -> Any:
    """A filter after the workers, and the batch after it."""
    texts = grain.MapDataset.source(TEXTS).shuffle(seed=7).to_iter_dataset(UNTHREADED)
    kept = texts.mp_prefetch(TWO_WORKERS).filter(is_short)
    batches = kept.map(Tokenize()).batch(BATCH)
    return grain.experimental.ThreadPrefetchIterDataset(batches, prefetch_buffer_size=2)


class Buckets(grain.IterDataset):  # type: ignore[misc]  # Grain is seen without its types
    """A user's own stage, which batches short and long texts separately."""

    def __iter__(self) -> Iterator[Any]:
        """Batches of texts of one kind."""
        return _BucketIterator(self._parent.__iter__())


class _BucketIterator(grain.DatasetIterator):  # type: ignore[misc]  # as above
    def __init__(self, parent: Any) -> None:
        super().__init__(parent)
        self._buckets: dict[bool, list[bytes]] = {True: [], False: []}

    def __next__(self) -> Any:
        for text in self._parent:
            bucket = self._buckets[is_short(text)]
            bucket.append(text)
            if len(bucket) == BATCH:
                self._buckets[is_short(text)] = []
                return bucket
        raise StopIteration

    def get_state(self) -> dict[str, Any]:
        """Return the parent's state; an example need not keep the buckets."""
        return {"parent": self._parent.get_state()}

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from a state."""
        self._parent.set_state(state["parent"])


@correct("tychota/tjev src/tjev/data/pipeline.py", REPRODUCIBLE)
def own_stage_after_workers() -> Any:
    """A dataset class that Grain does not know comes after the workers on purpose."""
    texts = grain.MapDataset.source(TEXTS).repeat().to_iter_dataset(UNTHREADED)
    buckets = Buckets(texts.mp_prefetch(TWO_WORKERS))
    return grain.experimental.ThreadPrefetchIterDataset(buckets, prefetch_buffer_size=2)
