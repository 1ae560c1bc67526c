"""Medians, their intervals, and the figures of a distribution."""

import subprocess
import sys
from dataclasses import astuple
from math import comb, inf
from random import Random

import numpy as np
import pytest
from scipy.stats import binom, theilslopes

from netpipe.results import statistics
from netpipe.results.measurement import Interval


def coverage(n: int, outside: int) -> float:
    """Return the chance that the median lies between order statistics `outside` from each end."""
    beyond = sum(comb(n, k) for k in range(outside + 1))
    return 1 - beyond / 2.0 ** (n - 1)


def test_no_interval_imports_scipy() -> None:
    """Importing scipy takes seconds on a busy machine, within the rounds."""
    code = (
        "import sys; from netpipe.results.statistics import median_interval; "
        "median_interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]); sys.exit('scipy' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_interval_is_that_of_the_binomial_distribution() -> None:
    """The number of values outside on each side is scipy's quantile."""
    counts = range(6, 400)
    expected = [int(binom.ppf(0.025, n, 0.5)) - 1 for n in counts]
    assert [statistics._most_below(n) for n in counts] == expected


@pytest.mark.parametrize("n", [1, 2])
def test_one_or_two_rounds_have_an_unbounded_interval(n: int) -> None:
    """Below three rounds the spread is unknown, so the interval is unbounded."""
    assert statistics.median_interval([2.0] * n) == Interval(2.0, -inf, inf, n)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([5.0, 4.0, 8.0], Interval(5.0, 2.0, 16.0, 3)),
        ([2.0, 2.0, 2.0], Interval(2.0, 2.0, 2.0, 3)),
        ([1024.0, 1.0, 2.0, 4.0], Interval(3.0, 1 / 8, 8192.0, 4)),
        ([4.0, 4096.0, 4.0, 4.0, 8.0], Interval(4.0, 2.0, 8192.0, 5)),
        ([7.0, 9.0, 8.0, 7.0, 9.0, 8.0], Interval(8.0, 7.0, 9.0, 6)),
        # Without a factor, the range is widened by a width, and stays above 0 if all values are.
        ([0.0, 1.0, 2.0], Interval(1.0, 0.0, 4.0, 3)),
        ([-1.0, 1.0, 2.0], Interval(1.0, -4.0, 5.0, 3)),
        ([0.0, 0.0, 0.0], Interval(0.0, 0.0, 0.0, 3)),
    ],
)
def test_a_few_rounds_have_their_range_widened(values: list[float], expected: Interval) -> None:
    """From three to five rounds the range is widened by a factor; six rounds need none."""
    found = statistics.median_interval(values)
    assert astuple(found) == pytest.approx(astuple(expected))


@pytest.mark.parametrize("n", [3, 4, 5])
def test_the_widened_range_covers_the_median(n: int) -> None:
    """The interval of a few lognormal times holds their median 95 to 98% of the time, above 0."""
    time_s = Random(1).lognormvariate
    found = [statistics.median_interval([time_s(0.0, 1.0) for _ in range(n)]) for _ in range(5000)]
    covered = sum(0.0 < interval.low <= 1.0 <= interval.high for interval in found)
    assert 0.95 * len(found) <= covered <= 0.98 * len(found)


@pytest.mark.parametrize("n", [6, 7, 8, 9, 10, 20, 50, 101, 400])
def test_the_interval_is_the_narrowest_that_covers(n: int) -> None:
    """The interval's order statistics cover the median with 95%, and one further in would not."""
    interval = statistics.median_interval([float(value) for value in reversed(range(n))])
    outside = int(interval.low)
    assert interval.high == n - 1 - outside
    assert coverage(n, outside) >= 0.95 > coverage(n, outside + 1)
    assert (interval.median, interval.n) == ((n - 1) / 2, n)


def test_a_ratio_pairs_the_values_of_one_round() -> None:
    """A machine that slows both quantities of a round leaves their ratio alone."""
    under = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0]
    assert statistics.ratio_interval([3 * value for value in under], under) == Interval(
        3.0, 3.0, 3.0, 6
    )


@pytest.mark.parametrize("over", [[1.0, 2.0, 8.0], [8.0, 1.0, 2.0, 4.0], [1.0, 8.0, 2.0, 2.0, 4.0]])
def test_a_ratio_of_few_rounds_can_be_inverted(over: list[float]) -> None:
    """A ratio is widened by a factor, equally far in both directions and never to 0."""
    ones = [1.0] * len(over)
    ratio, turned = statistics.ratio_interval(over, ones), statistics.ratio_interval(ones, over)
    assert 0 < ratio.low < 1 < 8 < ratio.high
    assert (turned.low, turned.high) == pytest.approx((1 / ratio.high, 1 / ratio.low))


@pytest.mark.parametrize(
    ("train_s", "expected"),
    [
        ([2.0, 4.0, 4.0], Interval(0.75, 0.0, 0.875, 3)),
        ([4.0] * 6, Interval(0.75, 0.75, 0.75, 6)),
        # A step that is faster in the loop than alone does not wait.
        ([0.9] * 6, Interval(0.0, 0.0, 0.0, 6)),
        ([2.0], Interval(0.5, -inf, inf, 1)),
    ],
)
def test_a_stall_is_a_share_of_the_real_step(train_s: list[float], expected: Interval) -> None:
    """The interval stays within 0 and 1 for any number of rounds."""
    assert statistics.stall_interval([1.0] * len(train_s), train_s) == expected


def test_a_ratio_needs_equally_many_values() -> None:
    """Unpaired values are refused, not dropped."""
    with pytest.raises(ValueError, match="shorter"):
        statistics.ratio_interval([1.0, 2.0], [1.0])


@pytest.mark.parametrize(
    ("values", "expected"),
    [([3.0], 0.0), ([2.0, 2.0], 0.0), ([0.0, 0.0], 0.0), ([1.0, 3.0], 2**0.5 / 2)],
)
def test_the_variation_is_relative_to_the_mean(values: list[float], expected: float) -> None:
    """The variation is the sample's standard deviation over its mean, and 0 without variation."""
    assert statistics.variation(values) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([0.0] * 10, 0.0), ([1.0] * 10, 0.1), ([1.0] * 18 + [9.0, 9.0], 0.5), ([4.0], 1.0)],
)
def test_the_worst_tenth_holds_its_share(values: list[float], expected: float) -> None:
    """The result is the share of the sum in the largest tenth of the values, at least one."""
    assert statistics.worst_tenth_fraction(values) == pytest.approx(expected)


def test_the_worst_tenth_is_never_more_than_all() -> None:
    """Before Python 3.12, the sum of its values may round upwards in their other order."""
    assert statistics.worst_tenth_fraction([1.4e-16, 1.4e-16, 1.0] + [0.0] * 27) <= 1.0


def test_half_a_width_is_relative_to_the_median() -> None:
    """An interval of 8 to 12 around 10 has a half width of 20%; an unbounded one is infinite."""
    assert statistics.half_width_fraction(Interval(10.0, 8.0, 12.0, 9)) == pytest.approx(0.2)
    assert statistics.half_width_fraction(statistics.median_interval([1.0])) == inf


@pytest.mark.parametrize("count", [1, 7, 100, 101, 250])
def test_percentiles_run_from_the_least_to_the_most(count: int) -> None:
    """The p-th percentile is the smallest value that p percent of the values do not exceed."""
    found = statistics.percentiles([float(number) for number in range(count, 0, -1)])
    assert found == tuple(max(1.0, float(-(-percent * count // 100))) for percent in range(101))


@pytest.mark.parametrize("n", range(1, 13))
def test_the_variance_of_a_median_is_that_of_medians(n: int) -> None:
    """The medians of drawn normal values spread as in the formula, within 5%."""
    medians = np.median(np.random.default_rng(n).normal(size=(20_000, n)), axis=1)
    assert statistics.median_variance(n) == pytest.approx(medians.var(), rel=0.05)


@pytest.mark.parametrize("n", [5, 6, 9, 12])
def test_a_slope_is_that_of_theil_and_sen(n: int) -> None:
    """The slope agrees with scipy's, and its interval with Sen's order statistics."""
    draw = np.random.default_rng(n)
    at = np.cumsum(draw.integers(1, 100, n)).tolist()
    values = (3.0 * np.array(at) + draw.normal(0, 50, n)).tolist()
    found, expected = statistics.slope_interval(at, values), theilslopes(values, at)
    assert found.median == pytest.approx(expected.slope)
    assert found.low <= expected.low_slope <= found.median <= expected.high_slope <= found.high
    assert found.n == n


def test_an_outlier_moves_no_slope() -> None:
    """One outlier does not change the slope."""
    values = [2.0 * place for place in range(9)]
    values[4] = 1e6
    assert statistics.slope_interval(range(9), values).median == pytest.approx(2.0)


@pytest.mark.parametrize("at", [(), (1,), (1, 1, 1), (1, 2, 3, 4)])
def test_a_slope_of_few_values_is_unbounded(at: tuple[int, ...]) -> None:
    """Below five values, or without two different places, the interval has no ends."""
    found = statistics.slope_interval(at, at)
    assert (found.low, found.high, found.n) == (-inf, inf, len(at))
