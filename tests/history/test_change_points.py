"""The commits at which a metric changed."""

import sys

import numpy as np
import pytest

from netpipe.errors import MisuseError
from netpipe.history.change_points import MIN_COMMITS, cut_levels
from tests.history.made import make_series, noisy


def test_a_step_is_found_at_its_commit() -> None:
    """The change has the medians before and after it."""
    series = make_series(noisy([2.0] * 30 + [2.2] * 15, 0.01))
    ((before, after),) = series.changes
    assert (before.begin, before.end, after.begin, after.end) == (0, 30, 30, 45)
    assert (before.value, after.value) == pytest.approx((2.0, 2.2), rel=0.01)
    assert series.is_worse(before, after)
    assert series.is_worse_now


def test_a_doubled_metric_has_a_plain_percentage() -> None:
    """It has no exponent."""
    series = make_series([1.0] * 20 + [2.0] * 10)
    (change,) = series.changes
    assert "rose by 100% (worse)" in series.describe(*change)


def test_a_drift_that_no_comparison_finds_is_found() -> None:
    """A rise of 3% over 20 commits, each of 0.15%, shows in sessions that spread by 1.2%."""
    levels = 1.8 * (1 + 0.03 * np.clip((np.arange(80) - 30) / 20, 0, 1))
    ((before, after),) = make_series(noisy(levels, 0.012)).changes
    assert 30 <= after.begin <= 50
    assert after.value / before.value == pytest.approx(1.03, abs=0.01)


def test_a_change_may_be_taken_back() -> None:
    """Both changes are found, and the metric is no worse than before."""
    series = make_series(noisy([1.0] * 20 + [1.1] * 12 + [1.0] * 20, 0.01))
    slower, back = series.changes
    assert (series.is_worse(*slower), series.is_worse(*back)) == (True, False)
    assert [(each.begin, each.end) for each in back] == [(20, 32), (32, 52)]
    assert not series.is_worse_now
    nearly = make_series([1.0] * 20 + [1.1] * 12 + [1.001] * 20)
    assert [nearly.is_worse(*each) for each in nearly.changes] == [True, False]
    assert not nearly.is_worse_now


def test_a_part_of_a_change_may_stay() -> None:
    """A metric that has recovered in part is worse than before."""
    series = make_series(noisy([2.0] * 30 + [2.4] * 15 + [2.3] * 15, 0.005))
    assert [series.is_worse(*each) for each in series.changes] == [True, False]
    assert series.is_worse_now


def test_a_rising_utilisation_is_better() -> None:
    """Worse and better follow the metric's direction."""
    values = noisy([0.8] * 20 + [0.9] * 20, 0.01)
    series = make_series(values, "accelerator_utilisation")
    (change,) = series.changes
    assert not series.is_worse(*change)


@pytest.mark.parametrize("seed", range(10))
def test_unchanged_code_shows_no_change(seed: int) -> None:
    """Neither independent noise nor disturbances of several commits are changes."""
    drawn = np.random.default_rng(seed).normal(0, 0.1, 208)
    lasting = np.convolve(drawn, np.ones(8) / 8**0.5, mode="valid")[:200]
    assert cut_levels(tuple(drawn[:200])) == []
    assert cut_levels(tuple(lasting)) == []


@pytest.mark.parametrize("at", [0, 20, 36])
@pytest.mark.parametrize("disturbed", [1, 4])
def test_less_than_five_disturbed_commits_are_noise(at: int, disturbed: int) -> None:
    """Neither in the middle nor at an end is a short disturbance a change."""
    values = noisy([1.0] * 40, 0.01)
    values[at : at + disturbed] = [1.5] * disturbed
    assert make_series(values).changes == []


def test_five_commits_at_the_end_are_a_change() -> None:
    """A regression is seen as soon as it lasts for five commits."""
    ((_, after),) = make_series(noisy([1.0] * 40 + [1.2] * 5, 0.01)).changes
    assert after.begin == 40


@pytest.mark.parametrize("seed", range(5))
def test_a_metric_with_two_values_has_noise(seed: int) -> None:
    """Most neighbours are equal, and still it changes by chance."""
    drawn = np.random.default_rng(seed).random(200) < 0.3
    assert cut_levels(tuple(np.where(drawn, 0.01, 0.0))) == []


def test_exact_counts_have_no_noise() -> None:
    """A count of work that rises by 1% has changed; one that is the same has not."""
    assert [
        after.begin for _, after in make_series([100.0] * 20 + [101.0] * 6, "calls").changes
    ] == [20]
    assert make_series([100.0] * 40, "calls").changes == []
    assert [after.begin for _, after in make_series([0.0] * 15 + [4.0] * 6, "padding").changes] == [
        15
    ]


def test_too_few_commits_show_no_change() -> None:
    """Noise is not known from a few commits."""
    values = [1.0] * 10 + [2.0] * 10
    assert make_series(values[1:]).changes == []
    assert len(make_series(values).changes) == 1
    assert len(values) == MIN_COMMITS


def test_without_ruptures_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package belongs to an extra."""
    monkeypatch.setitem(sys.modules, "ruptures", None)
    with pytest.raises(MisuseError, match=r"pip install 'netpipe\[history\]'"):
        cut_levels((1.0,) * MIN_COMMITS)
