"""Counter-based random numbers: pure functions of the place where they are used.

A draw is `hash(key, stream, slot)`, so it does not depend on the worker that makes the batch. The
key identifies the context, the stream the decision, and the slot the number within it. The hash is
the finalizer of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
generators", OOPSLA 2014).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

GOLDEN_GAMMA = 0x9E3779B97F4A7C15
_MASK = 0xFFFF_FFFF_FFFF_FFFF


def fold_key(*parts: int | NDArray[np.int64]) -> NDArray[np.uint64]:
    """Hash integers or int64 arrays, in order, into uint64 keys.

    The arrays broadcast; the keys have the resulting shape, or (1,) for integers alone.
    """
    key = np.zeros(1, np.uint64)
    with np.errstate(over="ignore"):
        for part in parts:
            array = np.array([part & _MASK]) if isinstance(part, int) else part
            key = _mix((key ^ array.astype(np.uint64)) + np.uint64(GOLDEN_GAMMA))
    return key


def uniform(key: NDArray[np.uint64], stream: int, slot: ArrayLike = 0) -> NDArray[np.float64]:
    """Draw float64 from [0, 1), 53 bits each; the keys and the slots, below 2**32, broadcast."""
    counter = np.asarray(slot, np.uint64) + np.uint64((stream << 32) + 1)
    with np.errstate(over="ignore"):
        bits = _mix(key + counter * np.uint64(GOLDEN_GAMMA))
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mix(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))
