"""Formatting of figures and text on a page."""

from math import inf

import pytest

from netpipe.reporting.tables import format_ratio, strip_modules
from netpipe.results.measurement import Interval
from netpipe.results.units import format_bounds


@pytest.mark.parametrize(
    ("interval", "words"),
    [
        (Interval(2.0, 1.0, 3.0, 9), "1 s to 3 s"),
        (Interval(2.0, -inf, inf, 2), "only 2 rounds"),
        (Interval(2.0, 0.0, inf, 1), "only 1 round"),
        (Interval(2.0, 1.0, inf, 3), "1 s or more"),
        (Interval(2.0, -inf, 3.0, 3), "3 s or less"),
    ],
)
def test_an_end_that_is_not_bounded_is_said(interval: Interval, words: str) -> None:
    """Infinity is not printed."""
    assert format_bounds(interval) == words


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("Map of mine.input.tokenize twice as fast", "Map of tokenize twice as fast"),
        (".map(mine.tokenize)", ".map(tokenize)"),
        (".batch(64)", ".batch(64)"),
        ("1.5 times", "1.5 times"),
        ("Tokenizer.encode", "encode"),
    ],
)
def test_where_a_function_comes_from_is_left_out(name: str, short: str) -> None:
    """Only the modules of functions are removed; dots in figures and methods stay."""
    assert strip_modules(name) == short


def test_no_figure_has_an_exponent() -> None:
    """Ratios have all their digits."""
    assert [format_ratio(999.9), format_ratio(1234.0)] == ["1000", "1230"]
