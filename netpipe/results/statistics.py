"""Statistics over rounds: medians with intervals, and ratios taken within rounds. Pure."""

from collections.abc import Sequence
from itertools import combinations
from math import ceil, comb, inf, isfinite, pi, sqrt
from statistics import fmean, median, stdev
from typing import Final

from netpipe.results.measurement import Interval

_MIN_FOR_INTERVAL: Final = 3
# How far the interval extends beyond each end of 3, 4 or 5 values, as a fraction of their range.
_WIDENING: Final = {3: 1.0, 4: 0.3, 5: 0.1}

MIN_LASTING_SLOPE_RATIO: Final = 0.7
"""Growth is ending if its later slope is below this multiple of the slope before or overall."""


def median_interval(values: Sequence[float]) -> Interval:
    """Return the median with its 95% interval.

    The interval runs between two order statistics; the number of observations below the median
    is binomial (David and Nagaraja, Order Statistics, 7.1). For fewer than 6 values, no such
    interval exists. The range of their logarithms is then widened on each side by a fraction of
    itself, so that at least 95% of the intervals of normal values hold the median. Lord (Biometrika
    34, 1947, p. 41) needs 0.80, 0.22 and 0.01 for intervals around the mean of three, four and five
    values; the range is not centred on it, so `_WIDENING` is a little larger. Times and ratios
    spread by factors, so their interval never reaches 0, and inverting a ratio inverts its
    interval. If a value is 0 or less, the range of the values themselves is widened. For fewer than
    3 values, the interval is unbounded.
    """
    n, ordered = len(values), sorted(values)
    if n < _MIN_FOR_INTERVAL:
        return Interval(median(ordered), -inf, inf, n)
    if n in _WIDENING:
        return Interval(median(ordered), *_widen(ordered[0], ordered[-1], _WIDENING[n]), n)
    below = _most_below(n)
    return Interval(median(ordered), ordered[below], ordered[-1 - below], n)


def _widen(least: float, most: float, fraction: float) -> tuple[float, float]:
    if least > 0:
        factor = (most / least) ** fraction
        return least / factor, most * factor
    reach = fraction * (most - least)
    return least - reach if least < 0 else 0.0, most + reach


def median_variance(n: int) -> float:
    """Return the variance of the median of `n` normal values, over the variance of one value.

    The median of two values is their mean. For more, this is the approximation to order 1/n^2 of
    Hodges and Lehmann (J. Am. Stat. Assoc. 62, 1967, p. 926), in which an even number of values is
    as good as the next odd one. It is within 3% of the exact variance.
    """
    if n <= 2:
        return 1 / n
    return (pi / 2) / ((n | 1) + 2 - pi / 2)


def slope_interval(at: Sequence[float], values: Sequence[float]) -> Interval:
    """Return the slope of values over ascending places: the median of the slopes between all pairs.

    The 95% interval runs between two of these slopes, chosen by the variance of Kendall's tau
    (Sen: J. Am. Stat. Assoc. 63, 1968, p. 1379). For fewer than 5 values it is unbounded.
    """
    points, n = combinations(zip(at, values, strict=True), 2), len(at)
    slopes = sorted((after - y) / (later - x) for (x, y), (later, after) in points if later > x)
    below = round((len(slopes) - 1.96 * sqrt(n * (n - 1) * (2 * n + 5) / 18)) / 2)
    if below < 1:
        return Interval(median(slopes or [0.0]), -inf, inf, n)
    return Interval(median(slopes), slopes[below - 1], slopes[-below], n)


def _most_below(n: int) -> int:
    """Return how many values may lie outside a 95% interval on each side.

    This is the largest count whose binomial distribution function, at probability 1/2, is below
    1/40. On a busy machine, importing scipy for it would take seconds in the middle of the rounds.
    """
    ways, below = 1, -1  # outcomes, among 2**n, with at most `below + 1` values on one side
    while 40 * ways < 2**n:
        below += 1
        ways += comb(n, below + 1)
    return below


def ratio_interval(over: Sequence[float], under: Sequence[float]) -> Interval:
    """Return the interval of the ratio of two quantities measured in the same rounds."""
    return median_interval([a / b for a, b in zip(over, under, strict=True)])


def stall_interval(step_s: Sequence[float], train_s: Sequence[float]) -> Interval:
    """Return the interval of the stall fraction, 1 - S0/R; finite ends lie between 0 and 1."""
    used = ratio_interval(step_s, train_s)
    low, high = (max(0.0, 1 - end) if isfinite(end) else -end for end in (used.high, used.low))
    return Interval(max(0.0, 1 - used.median), low, high, used.n)


def percentiles(values: Sequence[float]) -> tuple[float, ...]:
    """Return percentiles 0 to 100 of at least one value: 101 numbers in ascending order.

    Percentile p is the smallest value that is at least as large as p percent of the values.
    """
    ordered = sorted(values)
    return tuple(ordered[max(0, ceil(percent * len(ordered) / 100) - 1)] for percent in range(101))


def variation(values: Sequence[float]) -> float:
    """Return the coefficient of variation, standard deviation over mean; 0 for a single value."""
    mean = fmean(values)
    return stdev(values) / mean if len(values) > 1 and mean > 0 else 0.0


def worst_tenth_fraction(values: Sequence[float]) -> float:
    """Return the sum of the largest tenth of the values over the sum of all; 0 if that is 0."""
    total = sum(values)
    worst = sorted(values, reverse=True)[: max(1, len(values) // 10)]
    # The sums round differently.
    return min(1.0, sum(worst) / total) if total > 0 else 0.0


def half_width_fraction(interval: Interval) -> float:
    """Return half the interval's width over its median; infinite if the interval is unbounded."""
    return (interval.high - interval.low) / 2 / interval.median
