"""Find the commits at which a metric changed, including changes too small for one comparison.

PELT cuts a series where new means explain its levels better than the old one, by the sum of squares
and a penalty for each cut (Killick, Fearnhead and Eckley, J. Am. Stat. Assoc. 107, 2012, p. 1590).
Noise is estimated from differences between commits, which a few changes hardly move. If
disturbances last for several commits, neighbours are correlated (r), and the variance of a mean
grows by (1 + r) / (1 - r); the levels are scaled accordingly.
"""

from collections.abc import Sequence
from math import log, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from netpipe.errors import MisuseError

MIN_COMMITS: Final = 20
"""A series with fewer commits shows too little of its noise."""

MIN_NOISE: Final = 0.002
"""The smallest standard deviation of levels; sessions may agree by chance, as in the gate."""

# A level of fewer commits is taken for noise.
_MIN_SEGMENT: Final = 5
# Values further than this many standard deviations from the local median are clipped.
_CLIPPED_DEVIATIONS: Final = 3.0
# Chosen in perf_tests/studies/history.md: drifts of 3% against false changes.
_PENALTY: Final = 5.0
# The lag from which disturbances of a few commits are independent.
_LAG: Final = 5
_MAX_CORRELATION: Final = 0.9
# Quantiles of the absolute values of normal noise with a standard deviation of 1. That of
# neighbours is the higher one: most neighbours of a metric with a few distinct values are equal.
_MEDIAN: Final = (0.5, 0.6745)
_UPPER_QUARTILE: Final = (0.75, 1.1503)


def cut_levels(levels: Sequence[float]) -> list[int]:
    """Return the index of the first level after each change; none of less than `MIN_COMMITS`.

    Raises:
        MisuseError: The package ruptures is not installed.
    """
    if len(levels) < MIN_COMMITS:
        return []
    try:
        from ruptures import KernelCPD
    except ImportError as error:
        message = "change points need the package ruptures: pip install 'netpipe[history]'"
        raise MisuseError(message) from error
    values = np.array(levels)
    near = _estimate_noise(values, 1, *_UPPER_QUARTILE)
    lagged = _estimate_noise(values, _LAG, *_MEDIAN)
    noise = max(near, lagged)
    correlation = min(max(0.0, 1 - (near / lagged) ** 2), _MAX_CORRELATION)
    noise_of_mean = noise * sqrt((1 + correlation) / (1 - correlation))
    windows = np.lib.stride_tricks.sliding_window_view(values, 2 * _MIN_SEGMENT - 1)
    local_median = np.pad(np.median(windows, axis=1), _MIN_SEGMENT - 1, mode="edge")
    reach = _CLIPPED_DEVIATIONS * noise
    clipped = np.clip(values, local_median - reach, local_median + reach)
    scaled = ((clipped - np.median(clipped)) / noise_of_mean).reshape(-1, 1)
    found = KernelCPD(kernel="linear", min_size=_MIN_SEGMENT).fit(scaled)
    ends = [0, *map(int, found.predict(pen=_PENALTY * log(len(values))))]
    spans = zip(ends, ends[1:], ends[2:], strict=False)
    return [cut for begin, cut, end in spans if _lasts(values[begin:cut], values[cut:end])]


def _estimate_noise(values: NDArray[np.float64], lag: int, quantile: float, normal: float) -> float:
    """Return the standard deviation of values, from their differences over a number of commits."""
    differences = np.abs(values[lag:] - values[:-lag])
    return max(MIN_NOISE, float(np.quantile(differences, quantile)) / normal / sqrt(2))


def _lasts(before: NDArray[np.float64], after: NDArray[np.float64]) -> bool:
    """Return whether enough commits of each level lie on its side of the middle between both."""
    low, high = sorted((before, after), key=np.median)
    middle = (np.median(low) + np.median(high)) / 2
    on_their_sides = int(np.sum(low < middle)), int(np.sum(high > middle))
    return min(on_their_sides) >= _MIN_SEGMENT
