"""The input of this project: windows of characters from a folder of texts, with Grain."""

from bisect import bisect_right
from itertools import accumulate
from pathlib import Path

import grain
import numpy as np
from absl import flags

flags.FLAGS.mark_as_parsed()  # Grain's workers need them

TEXTS = Path(__file__).with_name("texts")
SEED = 20
BATCH_SIZE = 32
WINDOW = 129  # characters: 128 to read, each with the one after it to predict
WORKERS = 1


class Windows:
    """Every window of a folder's texts, one for each character where a whole window begins."""

    def __init__(self, folder: Path) -> None:
        self._paths = sorted(folder.glob("*.txt"))
        self._ends = list(accumulate(path.stat().st_size - WINDOW + 1 for path in self._paths))

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int) -> bytes:
        text = bisect_right(self._ends, index)
        with self._paths[text].open("rb") as stream:
            stream.seek(index - (self._ends[text - 1] if text else 0))
            return stream.read(WINDOW)


def as_tokens(window: bytes) -> np.ndarray:
    """Turn a window into one token per character: uint8 (WINDOW,)."""
    return np.frombuffer(window, np.uint8)


def batches() -> grain.IterDataset:
    """Return endless shuffled windows: uint8 (BATCH_SIZE, WINDOW)."""
    return (
        grain.MapDataset.source(Windows(TEXTS))
        .shuffle(SEED)
        .repeat()
        .map(as_tokens)
        .batch(BATCH_SIZE)
        .to_iter_dataset(grain.ReadOptions(num_threads=0, prefetch_buffer_size=0))
        .mp_prefetch(grain.MultiprocessingOptions(WORKERS, per_worker_buffer_size=8))
    )
