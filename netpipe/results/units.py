"""Format figures as text for people."""

import re
from collections.abc import Callable
from math import isfinite

from netpipe.results.measurement import Interval

_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_THOUSANDS = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def format_seconds(value: float) -> str:
    """Format a duration with three significant digits: `36.2 ms`."""
    # Round before choosing the unit, or 999.9 us would become 1000 us.
    short = float(f"{value:.3g}")
    if short == 0:
        return "0 s"
    scale, unit = next((step for step in _UNITS if abs(short) >= step[0]), _UNITS[-1])
    return f"{format_number(short / scale)} {unit}"


def format_number(value: float, digits: int = 3) -> str:
    """Format a number with `digits` significant digits and no exponent: `48.8`, `1230`."""
    return f"{float(f'{value:.{digits}g}'):.15g}"


def format_amount(value: float) -> str:
    """Format an amount with three significant digits: `13.9 M`."""
    scale, prefix = scale_of(value)
    return f"{format_number(value / scale)} {prefix}".rstrip()


def format_bytes(value: float) -> str:
    """Format bytes with three significant digits: `13.9 MB`."""
    scale, prefix = scale_of(value)
    return f"{format_number(value / scale)} {prefix}B"


def scale_of(value: float) -> tuple[float, str]:
    """Return the size and prefix of the unit that `format_amount` uses: `(1e6, "M")`."""
    # Round before choosing the unit, or 999,900 would become 1000 k.
    short = float(format_number(value))
    return next((step for step in _THOUSANDS if abs(short) >= step[0]), (1.0, ""))


def format_megabytes(value: float) -> str:
    """Format a number of bytes in whole megabytes, to compare it with a limit: `1304 MB`."""
    return f"{value / 1e6:.0f} MB"


def format_minutes(value: float) -> str:
    """Format a duration as minutes and whole seconds: `1:05`."""
    whole = round(value)
    return f"{whole // 60}:{whole % 60:02}"


def format_seconds_interval(interval: Interval | None) -> str:
    """Format a duration with its interval: `36.2 ms (35.9 to 36.8 ms)`."""
    # Write a shared unit once.
    return re.sub(r" (\w+) to (\S+ \1\))$", r" to \2", _format_interval(interval, format_seconds))


def format_ratio_interval(interval: Interval | None) -> str:
    """Format a ratio with its interval: `1.02 (1.00 to 1.04)`."""
    return _format_interval(interval, "{:.2f}".format)


def _format_interval(interval: Interval | None, write: Callable[[float], str]) -> str:
    if interval is None:
        return "not measured"
    return f"{write(interval.median)} ({format_bounds(interval, write)})"


def format_bounds(interval: Interval, write: Callable[[float], str] = format_seconds) -> str:
    """Format the ends of an interval: `35.9 ms to 36.8 ms`, or `only 2 rounds` without any."""
    if isfinite(interval.low) and isfinite(interval.high):
        return f"{write(interval.low)} to {write(interval.high)}"
    if isfinite(interval.low) and interval.low > 0:
        return f"{write(interval.low)} or more"
    if isfinite(interval.high):
        return f"{write(interval.high)} or less"
    return f"only {format_count(interval.n, 'round')}"


def describe_interval(
    interval: Interval, write: Callable[[float], str] = format_seconds
) -> tuple[str, str]:
    """Return the median of an interval and its ends, both formatted."""
    return write(interval.median), format_bounds(interval, write)


def format_count(count: object, noun: str) -> str:
    """Format a number with its noun: `1 round`, `2 batches`, `1,000 elements`."""
    number = f"{count:,}" if isinstance(count, int) else str(count)
    plural = f"{noun}es" if noun.endswith("tch") else f"{noun}s"
    return f"{number} {noun if count == 1 else plural}"


def format_percent(fraction: float | None) -> str:
    """Format a fraction as a percentage: `4.2%`."""
    return "not measured" if fraction is None else f"{100 * fraction:.1f}%"


def format_metric(name: str, value: float) -> str:
    """Format a metric's value with the unit that its name contains."""
    unit = name.partition("_per_")[0].rpartition("_")[2]
    write = {"s": format_seconds, "bytes": format_bytes}.get(unit, format_number)
    return write(value)
