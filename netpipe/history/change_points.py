"""Find the commits at which a metric changed, also by less than any single comparison can tell.

The levels of a series are cut where a new mean explains them better than the old one, which PELT
does for the smallest sum of squares and a penalty per cut (Killick, Fearnhead and Eckley, J. Am.
Stat. Assoc. 107, 2012, p. 1590). Noise is measured in differences between commits, which a few
changes hardly move, and those of neighbours are smaller than others if a disturbance lasts for
several commits. Such noise moves means further, by the factor (1 + r) / (1 - r) of the variance of
a mean for a correlation r of neighbours, so the penalty grows with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
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
# Standard deviations from the usual level nearby; what lies further away counts as this much.
_OUTLIER: Final = 3.0
# Chosen in perf_tests/studies/history.md: 3% over 20 commits against false alarms.
_PENALTY: Final = 5.0
# Commits between the values of a difference that a disturbance of some commits does not make small.
_LAG: Final = 5
# Sessions may agree by chance, as in the gate.
_MIN_NOISE: Final = 0.002
_MAX_CORRELATION: Final = 0.9
# The median of the absolute values of normal noise, for a standard deviation of 1.
_NORMAL_MEDIAN: Final = 0.6745


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

    @property
    def is_latest(self) -> bool:
        """Whether the metric has not changed since."""
        return self.end == len(self.series.values)


def find_change_points(series: Series) -> list[ChangePoint]:
    """Return the changes of a series, the oldest first; none if it has less than `MIN_COMMITS`.

    Raises:
        MisuseError: The package ruptures is not installed.
    """
    cuts = cut_levels(series.levels)
    ends = [0, *cuts, len(series.values)]
    return [ChangePoint(series, *ends[number : number + 3]) for number in range(len(cuts))]


def cut_levels(levels: Sequence[float]) -> list[int]:
    """Return the index of the first level after each change."""
    if len(levels) < MIN_COMMITS:
        return []
    try:
        from ruptures import KernelCPD
    except ImportError as error:
        message = "change points need the package ruptures: pip install 'netpipe[history]'"
        raise MisuseError(message) from error
    from scipy.ndimage import median_filter

    values = np.array(levels)
    near, far = (_measure_noise(values, lag) for lag in (1, _LAG))
    correlation = min(max(0.0, 1 - (near / far) ** 2), _MAX_CORRELATION)
    usual, reach = median_filter(values, 2 * _MIN_SEGMENT - 1), _OUTLIER * max(near, far)
    kept = np.clip(values, usual - reach, usual + reach)
    unsteadiness = max(near, far) * sqrt((1 + correlation) / (1 - correlation))
    scaled = (kept - np.median(kept)) / unsteadiness
    found = KernelCPD(kernel="linear", min_size=_MIN_SEGMENT).fit(scaled.reshape(-1, 1))
    return list(map(int, found.predict(pen=_PENALTY * log(len(values)))[:-1]))


def _measure_noise(values: NDArray[np.float64], lag: int) -> float:
    """Return the standard deviation of values, from differences over a number of commits."""
    difference = float(np.median(np.abs(values[lag:] - values[:-lag])))
    return max(_MIN_NOISE, difference / _NORMAL_MEDIAN / sqrt(2))
