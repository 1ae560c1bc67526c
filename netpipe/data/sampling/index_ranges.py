"""Many ranges of integers at once."""

import numpy as np
from numpy.typing import NDArray


def ranges(first: NDArray[np.int64], size: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the integers from each `first` on, `size` of them each, behind each other."""
    ends = np.cumsum(size)
    return np.repeat(first - ends + size, size) + np.arange(ends[-1])
