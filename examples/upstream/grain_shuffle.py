"""Print the correlation of neighbours in Grain's shuffles of several sizes."""

import sys

import grain
import numpy as np

SIZES = (1_000, 32_768, 65_536, 100_000)
SEEDS = range(5)


def correlate(size: int, seed: int) -> float:
    """Return the correlation between successive elements of a shuffled range."""
    shuffled = grain.MapDataset.range(size).shuffle(seed=seed)
    order = np.array([shuffled[index] for index in range(size)])
    return float(np.corrcoef(order[:-1], order[1:])[0, 1])


if __name__ == "__main__":
    is_uniform = True
    for size in SIZES:
        found = [correlate(size, seed) for seed in SEEDS]
        limit = 4 / size**0.5  # four standard deviations of a uniform shuffle's
        is_uniform = is_uniform and max(map(abs, found)) < limit
        text = ", ".join(f"{value:+.3f}" for value in found)
        sys.stdout.write(f"{size:,} elements: {text} (uniform: within {limit:.3f})\n")
    sys.exit(0 if is_uniform else 1)
