"""How amounts are written for people. Formatting only."""

from typing import Final

_MB: Final = 1e6
_THOUSANDS: Final = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def amount(value: float) -> str:
    """Write an amount with three significant digits: `13.9 M`."""
    scale, thousands = scale_of(value)
    return f"{short(value / scale)} {thousands}".rstrip()


def scale_of(value: float) -> tuple[float, str]:
    """Return the unit that an amount is written in: its size and its sign."""
    return next((one for one in _THOUSANDS if value >= one[0]), (1.0, ""))


def short(value: float) -> str:
    """Write a number with three significant digits."""
    return f"{float(f'{value:.3g}'):g}"


def megabytes(value: float) -> str:
    """Write bytes: `334 MB`."""
    return f"{value / _MB:.0f} MB"
