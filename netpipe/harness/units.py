"""How figures are written for people. Formatting only."""

from netpipe.harness.measurement import Interval

_STEPS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def seconds(value: float) -> str:
    """Write a duration with three significant digits: `36.2 ms`."""
    for scale, unit in _STEPS:
        if abs(value) >= scale:
            return f"{value / scale:.3g} {unit}"
    return "0 s" if value == 0 else f"{value / 1e-9:.2g} ns"


def seconds_interval(interval: Interval | None) -> str:
    """Write a duration with its interval: `36.2 ms (35.9 to 36.8 ms)`."""
    if interval is None:
        return "not measured"
    low, high = seconds(interval.low), seconds(interval.high)
    if low.split()[1] == high.split()[1]:
        low = low.split()[0]
    return f"{seconds(interval.median)} ({low} to {high})"


def ratio_interval(interval: Interval | None) -> str:
    """Write a ratio with its interval: `1.02 (1.00 to 1.04)`."""
    if interval is None:
        return "not measured"
    return f"{interval.median:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def percent(fraction: float | None) -> str:
    """Write a fraction as a percentage: `4.2%`."""
    return "not measured" if fraction is None else f"{100 * fraction:.1f}%"


def count(value: float) -> str:
    """Write a large number with its thousands marked: `1,234,567`."""
    return f"{value:,.0f}"
