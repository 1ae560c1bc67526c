"""Axes whose ticks people can read: durations with their unit, factors by halves and doubles."""

from math import ceil, floor, isfinite, log2
from typing import Final

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

from netpipe.page.wording import short_count
from netpipe.results.units import format_seconds

_MOST_TICKS: Final = 5


def label_seconds(axes: Axes) -> None:
    """Give the x axis few ticks, each a duration with its unit."""
    axes.xaxis.set_major_locator(MaxNLocator(_MOST_TICKS, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: format_seconds(value)))


def label_counts(axes: Axes) -> None:
    """Give the x axis few ticks, each a count."""
    axes.xaxis.set_major_locator(MaxNLocator(_MOST_TICKS, steps=[1, 2, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: short_count(value)))


def label_factors(axes: Axes, low: float, high: float) -> None:
    """Make the x axis one of factors from about `low` to `high`, both above 0; 1 is on it."""
    first, last = floor(log2(min(low, 0.8))), ceil(log2(max(high, 1.25)))
    every = max(1, ceil((last - first) / _MOST_TICKS))
    powers = [one for one in range(first, last + 1) if one % every == 0]
    axes.set_xscale("log", base=2)
    axes.set_xlim(2.0**first, 2.0**last)
    axes.xaxis.set_major_locator(FixedLocator([2.0**one for one in powers]))
    axes.xaxis.set_minor_locator(FixedLocator([]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _factor(value)))


def _factor(value: float) -> str:
    return f"{value:g} x" if value >= 1 else f"1/{1 / value:g} x"


def finite(values: list[float]) -> list[float]:
    """Leave out the ends of unbounded intervals."""
    return [one for one in values if isfinite(one)]
