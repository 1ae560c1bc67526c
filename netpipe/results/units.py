"""How figures are written for people. Formatting only."""

from math import isfinite

from netpipe.results.measurement import Interval

_STEPS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


def format_seconds(value: float) -> str:
    """Write a duration with three significant digits: `36.2 ms`."""
    short = float(f"{value:.3g}")  # first, or 999.9 us would become 1000 us
    if short == 0:
        return "0 s"
    scale, unit = next((one for one in _STEPS if abs(short) >= one[0]), _STEPS[-1])
    return f"{format_number(short / scale)} {unit}"


def format_number(value: float, digits: int = 3) -> str:
    """Write a number with so many significant digits: `48.8`, and never `1.23e+03` but `1230`."""
    return f"{float(f'{value:.{digits}g}'):.15g}"


def format_minutes(value: float) -> str:
    """Write a duration as minutes and whole seconds: `1:05`."""
    whole = round(value)
    return f"{whole // 60}:{whole % 60:02}"


def format_seconds_interval(interval: Interval | None) -> str:
    """Write a duration with its interval: `36.2 ms (35.9 to 36.8 ms)`."""
    if interval is None:
        return "not measured"
    if not isfinite(interval.high):
        return f"{format_seconds(interval.median)} ({_unbounded(interval)})"
    low, high = format_seconds(interval.low), format_seconds(interval.high)
    if low.split()[1] == high.split()[1]:
        low = low.split()[0]
    return f"{format_seconds(interval.median)} ({low} to {high})"


def format_ratio_interval(interval: Interval | None) -> str:
    """Write a ratio with its interval: `1.02 (1.00 to 1.04)`."""
    if interval is None:
        return "not measured"
    if not isfinite(interval.high):
        return f"{interval.median:.2f} ({_unbounded(interval)})"
    return f"{interval.median:.2f} ({interval.low:.2f} to {interval.high:.2f})"


def _unbounded(interval: Interval) -> str:
    return f"{format_rounds(interval.n)}, too few for an interval"


def format_rounds(count: int) -> str:
    """Write how many rounds there were: `1 round`, `9 rounds`."""
    return f"{count} round{'s' * (count != 1)}"


def format_percent(fraction: float | None) -> str:
    """Write a fraction as a percentage: `4.2%`."""
    return "not measured" if fraction is None else f"{100 * fraction:.1f}%"


def format_metric(name: str, value: float) -> str:
    """Write a figure of a Measurement: its name says whether it is a duration."""
    return (
        format_seconds(value) if name.partition("_per_")[0].endswith("_s") else format_number(value)
    )
