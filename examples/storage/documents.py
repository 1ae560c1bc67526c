"""Documents in a bucket, read one by one: docs/storage.md leads from the symptom to the fix.

The documents are generated here, so nothing has to be downloaded. With `--storage object-store`,
each read takes as long as from a bucket.
"""

import grain
import numpy as np

DOCUMENTS = 100_000
LENGTH = 4_096
BATCH_SIZE = 16


class Documents:
    """Documents as bytes, uint8 (256 to 8,191,)."""

    def __len__(self) -> int:
        """Return the number of documents."""
        return DOCUMENTS

    def __getitem__(self, number: int) -> np.ndarray:
        """Return one document."""
        rng = np.random.default_rng(number)
        return rng.integers(1, 256, rng.integers(256, 2 * LENGTH), np.uint8)


def tokenize(document: np.ndarray) -> np.ndarray:
    """Return tokens, int32 (LENGTH,), truncated or padded with 0."""
    tokens = np.zeros(LENGTH, np.int32)
    cut = document[:LENGTH]
    tokens[: len(cut)] = cut
    return tokens


def read_with(threads: int) -> grain.IterDataset:
    """Return batches, int32 (BATCH_SIZE, LENGTH), of documents that `threads` threads read."""
    options = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=4 * threads)
    documents = grain.MapDataset.source(Documents()).shuffle(seed=0).repeat().map(tokenize)
    loaded = documents.to_iter_dataset(options).batch(BATCH_SIZE)
    return grain.experimental.ThreadPrefetchIterDataset(loaded, prefetch_buffer_size=2)


def batches() -> grain.IterDataset:
    """Read with four threads, which are enough for a local disk."""
    return read_with(4)


def fixed() -> grain.IterDataset:
    """Read with 64 threads, as `netpipe diagnose` proposes."""
    return read_with(64)


batches.netpipe_storage = fixed.netpipe_storage = "remote"
