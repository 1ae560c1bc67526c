"""Concatenated ranges of integers."""

import numpy as np
from numpy.typing import NDArray


def ranges(first: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Concatenate `range(first, first + size)` for each pair."""
    ends = np.cumsum(size)
    return np.repeat(first - ends + size, size) + np.arange(ends[-1])
