"""An input pipeline whose calls are in the wrong order; docs/lint.md shows its findings."""

import grain
import numpy as np
from absl import flags

flags.FLAGS.mark_as_parsed()  # Grain's workers need them
WORKERS = grain.MultiprocessingOptions(num_workers=2)


class Windows:
    """Windows of text as bytes, uint8 (1024,)."""

    def __len__(self) -> int:
        """Return the number of windows."""
        return 20_000

    def __getitem__(self, place: int) -> np.ndarray:
        """Return one window."""
        return np.random.default_rng(place).integers(0, 256, 1024, np.uint8)


def tokenize(window: np.ndarray) -> np.ndarray:
    """Return tokens, int32 (1024,): 0 is left for padding."""
    return window.astype(np.int32) + 1


def batches() -> grain.IterDataset:
    """Return batches of 64 windows."""
    return (
        grain.MapDataset.source(Windows())
        .shuffle(seed=0)
        .repeat()
        .map(tokenize)
        .to_iter_dataset()
        .mp_prefetch(WORKERS)
        .batch(64)
    )
