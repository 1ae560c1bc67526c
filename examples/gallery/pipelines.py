"""The pipelines of the gallery that no other example has."""

from collections.abc import Callable, Iterator
from time import sleep
from typing import Any

import grain
import numpy as np

LENGTH = 4_096
BATCH_SIZE = 16
ONE_THREAD = grain.ReadOptions(num_threads=1, prefetch_buffer_size=32)
NO_THREAD = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)


class Texts:
    """Texts, bytes (LENGTH,): each is read `seconds` after it is requested."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def __len__(self) -> int:
        """Return the number of texts."""
        return 100_000

    def __getitem__(self, number: int) -> bytes:
        """Return one text."""
        if self.seconds:
            sleep(self.seconds)
        return np.random.default_rng(number).integers(32, 127, LENGTH, np.uint8).tobytes()


def tokenize(text: bytes) -> np.ndarray:
    """Return tokens, int32 (LENGTH,): one for each character."""
    return np.frombuffer(text, np.uint8).astype(np.int32)


def _batches(texts: Texts, options: grain.ReadOptions) -> grain.IterDataset:
    dataset = grain.MapDataset.source(texts).shuffle(seed=0).repeat().map(tokenize)
    return dataset.batch(BATCH_SIZE).to_iter_dataset(options)


def healthy() -> grain.IterDataset:
    """Return batches, int32 (BATCH_SIZE, LENGTH), that a thread loads ahead of time."""
    return _batches(Texts(), ONE_THREAD)


def from_a_disk() -> grain.IterDataset:
    """Return batches, int32 (BATCH_SIZE, LENGTH), read from a disk in the thread that trains."""
    return _batches(Texts(seconds=0.001), NO_THREAD)


def read_each_loss(batches: Iterator[Any], state: Any, step: Callable[..., Any]) -> None:
    """Train, and read every loss before the next batch is requested."""
    total = 0.0
    for batch in batches:
        state, aux = step(state, batch)
        total += float(aux["loss"])


MERGES = [(first, first + 1) for first in range(32, 122, 2)]
FOUR_THREADS = grain.ReadOptions(num_threads=4, prefetch_buffer_size=8)


def merge_pairs(text: bytes) -> np.ndarray:
    """Return tokens, int32 (LENGTH,): byte pairs merged one after the other, padded with 0."""
    tokens = list(text)
    for merged, (first, second) in enumerate(MERGES, start=256):
        kept: list[int] = []
        for token in tokens:
            if token == second and kept and kept[-1] == first:
                kept[-1] = merged
            else:
                kept.append(token)
        tokens = kept
    return np.array(tokens + [0] * (LENGTH - len(tokens)), np.int32)


def merged_in_python() -> grain.IterDataset:
    """Return batches, int32 (BATCH_SIZE, LENGTH), that four threads encode in Python."""
    dataset = grain.MapDataset.source(Texts()).shuffle(seed=0).repeat().map(merge_pairs)
    return dataset.batch(BATCH_SIZE).to_iter_dataset(FOUR_THREADS)
