"""Streams of Hugging Face datasets, as loaders whose states can be restored."""

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from datasets import Dataset

ELEMENTS: Final = 4000
SHARDS: Final = 16
BATCH: Final = 20


def open_stream() -> Any:
    """Return a stream of numbered elements in shards."""
    made = Dataset.from_dict({"id": np.arange(ELEMENTS)}).with_format("numpy")
    return made.to_iterable_dataset(num_shards=SHARDS)


def shuffled_epochs(buffer_size: int) -> Iterator[list[Any]]:
    """Yield the batches of two epochs of a stream with a shuffle buffer."""
    stream = open_stream().shuffle(seed=1, buffer_size=buffer_size).batch(BATCH)
    for epoch in range(2):
        stream.set_epoch(epoch)
        yield [*stream]


class Batches(Iterator[Any]):
    """The batches of a stream.

    In every release, the state between a restore and the next batch is that of the start. This
    keeps the restored state until then.
    """

    def __init__(self) -> None:
        self._stream = open_stream().batch(BATCH)
        self._batches: Iterator[Any] | None = None
        self._restored: Any = None

    def __next__(self) -> Any:
        """Return the next batch."""
        self._batches = self._batches or iter(self._stream)
        self._restored = None
        return next(self._batches)

    def state_dict(self) -> Any:
        """Return the position in the stream."""
        return self._restored or self._stream.state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Continue from a position."""
        self._restored = state
        self._stream.load_state_dict(state)
