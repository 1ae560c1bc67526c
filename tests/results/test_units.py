"""Formatting of figures for people."""

from math import inf

import pytest

from netpipe.results import units
from netpipe.results.measurement import Interval


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 s"),
        (1.0, "1 s"),
        (83.456, "83.5 s"),
        (1234.0, "1230 s"),
        (0.0362, "36.2 ms"),
        (0.001, "1 ms"),
        (0.0009994, "999 us"),
        (0.0009996, "1 ms"),
        (0.9996, "1 s"),
        (5e-6, "5 us"),
        (7.25e-9, "7.25 ns"),
        (4e-11, "0.04 ns"),
        (-0.002, "-2 ms"),
        (inf, "inf s"),
    ],
)
def test_a_duration_has_three_digits_and_its_unit(value: float, text: str) -> None:
    """A duration is between 1 and 999 of its unit, with three digits and no exponent."""
    assert units.format_seconds(value) == text


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(0.0362, 0.0359, 0.0368, 9), "36.2 ms (35.9 to 36.8 ms)"),
        (Interval(0.001, 0.0009, 0.0011, 9), "1 ms (900 us to 1.1 ms)"),
        (Interval(0.5, -inf, inf, 2), "500 ms (only 2 rounds)"),
        (Interval(0.5, 0.0, inf, 2), "500 ms (only 2 rounds)"),
        (Interval(0.5, -inf, inf, 1), "500 ms (only 1 round)"),
        (None, "not measured"),
    ],
)
def test_an_interval_says_its_unit_once(interval: Interval | None, text: str) -> None:
    """The low end has its own unit only if it differs."""
    assert units.format_seconds_interval(interval) == text


def test_a_ratio_has_two_decimals() -> None:
    """A ratio is written with its interval."""
    assert units.format_ratio_interval(Interval(1.018, 1.0, 1.036, 9)) == "1.02 (1.00 to 1.04)"
    assert units.format_ratio_interval(None) == "not measured"
    unbounded = Interval(0.55, -inf, inf, 2)
    assert units.format_ratio_interval(unbounded) == "0.55 (only 2 rounds)"


@pytest.mark.parametrize(("count", "noun", "text"), [
    (0, "worker", "0 workers"), (1, "batch", "1 batch"), (2, "batch", "2 batches"),
    (2, "epoch", "2 epochs"), (1000, "element", "1,000 elements"), (None, "thread", "None threads"),
])  # fmt: skip
def test_a_count_has_its_noun(count: object, noun: str, text: str) -> None:
    """One has the singular."""
    assert units.format_count(count, noun) == text


def test_a_fraction_is_shown_as_a_percentage() -> None:
    """Percent exists in text only."""
    assert units.format_percent(0.042) == "4.2%"
    assert units.format_percent(None) == "not measured"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (162.4, "162"),
        (999.6, "1 k"),
        (20_900_000, "20.9 M"),
        (999_900, "1 M"),
        (1e13, "10000 G"),
    ],
)
def test_an_amount_has_three_digits_and_its_prefix(value: float, text: str) -> None:
    """An amount rounded up to the next prefix has that prefix, and no exponent."""
    assert units.format_amount(value) == text
