"""Find the commits at which a metric changed, including changes too small for one comparison.

PELT cuts a series where new means explain its levels better than the old one, by the sum of squares
and a penalty for each cut (Killick, Fearnhead and Eckley, J. Am. Stat. Assoc. 107, 2012, p. 1590).
Noise is estimated from differences between commits, which a few changes hardly move. If
disturbances last for several commits, neighbours are correlated (r), and the variance of a mean
grows by (1 + r) / (1 - r); the levels are scaled accordingly.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import pairwise
from math import log, sqrt
from statistics import median
from typing import Final

import numpy as np
from numpy.typing import NDArray

from netpipe.errors import MisuseError
from netpipe.history.entries import Series

MIN_COMMITS: Final = 20
"""A series with fewer commits shows too little of its noise."""

# A level of fewer commits is taken for noise.
_MIN_SEGMENT: Final = 5
# Values further than this many standard deviations from the local median are clipped.
_CLIPPED_DEVIATIONS: Final = 3.0
# Chosen in perf_tests/studies/history.md: drifts of 3% against false changes.
_PENALTY: Final = 5.0
# The lag from which disturbances of a few commits are independent.
_LAG: Final = 5
# Sessions may agree by chance, as in the gate.
_MIN_NOISE: Final = 0.002
_MAX_CORRELATION: Final = 0.9
# Quantiles of the absolute values of normal noise with a standard deviation of 1. That of
# neighbours is the higher one: most neighbours of a metric with a few distinct values are equal.
_MEDIAN: Final = (0.5, 0.6745)
_UPPER_QUARTILE: Final = (0.75, 1.1503)


@dataclass(frozen=True)
class ChangePoint:
    """A change of the mean level of a series.

    Attributes:
        begin: The index of the first commit of the level before the change.
        at: The index of the first commit after the change, as nearly as the noise lets it be known.
        end: The index after the last commit of the level after the change.
    """

    series: Series
    begin: int
    at: int
    end: int

    @cached_property
    def before(self) -> float:
        """The median value before the change, in the metric's unit."""
        return median(self.series.values[self.begin : self.at])

    @cached_property
    def after(self) -> float:
        """The median value after the change, in the metric's unit."""
        return median(self.series.values[self.at : self.end])

    @property
    def is_worse(self) -> bool:
        """Whether the metric became worse."""
        levels = self.series.levels
        return median(levels[self.at : self.end]) > median(levels[self.begin : self.at])


def find_change_points(series: Series) -> list[ChangePoint]:
    """Return the changes of a series, the oldest first; none if it has less than `MIN_COMMITS`.

    Raises:
        MisuseError: The package ruptures is not installed.
    """
    cuts = cut_levels(tuple(series.levels))
    ends = [0, *cuts, len(series.values)]
    return [ChangePoint(series, *ends[number : number + 3]) for number in range(len(cuts))]


def is_worse_now(changes: Sequence[ChangePoint]) -> bool:
    """Return whether the last level of a series is worse than one that it became worse than."""
    if not changes:
        return False
    levels = changes[-1].series.levels
    now = median(levels[changes[-1].at :])
    worse = (each for each in changes if each.is_worse)
    return any(now > median(levels[each.begin : each.at]) + _MIN_NOISE for each in worse)


@cache
def cut_levels(levels: tuple[float, ...]) -> list[int]:
    """Return the index of the first level after each change."""
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
    local_median = _find_local_median(values)
    reach = _CLIPPED_DEVIATIONS * noise
    clipped = np.clip(values, local_median - reach, local_median + reach)
    noise_of_mean = noise * sqrt((1 + correlation) / (1 - correlation))
    scaled = ((clipped - np.median(clipped)) / noise_of_mean).reshape(-1, 1)
    found = KernelCPD(kernel="linear", min_size=_MIN_SEGMENT).fit(scaled)
    cuts = list(map(int, found.predict(pen=_PENALTY * log(len(values)))[:-1]))
    ends = [0, *cuts, len(values)]
    return [
        cut
        for cut, (begin, _), (_, end) in zip(cuts, pairwise(ends), pairwise(ends[1:]), strict=False)
        if _lasts(values[begin:cut], values[cut:end])
    ]


def _estimate_noise(values: NDArray[np.float64], lag: int, quantile: float, normal: float) -> float:
    """Return the standard deviation of values, from their differences over a number of commits."""
    differences = np.abs(values[lag:] - values[:-lag])
    return max(_MIN_NOISE, float(np.quantile(differences, quantile)) / normal / sqrt(2))


def _find_local_median(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median around each value; at both ends, that of the nearest whole window."""
    half = _MIN_SEGMENT - 1
    windows = np.lib.stride_tricks.sliding_window_view(values, 2 * half + 1)
    return np.pad(np.median(windows, axis=1), half, mode="edge")


def _lasts(before: NDArray[np.float64], after: NDArray[np.float64]) -> bool:
    """Return whether enough commits of each level lie on its side of the middle between both."""
    low, high = sorted((before, after), key=np.median)
    middle = (np.median(low) + np.median(high)) / 2
    on_their_sides = int(np.sum(low < middle)), int(np.sum(high > middle))
    return min(on_their_sides) >= _MIN_SEGMENT
