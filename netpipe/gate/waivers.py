"""Accepted slowdowns, each with a bound, a reason and an end: `waivers.toml` beside baselines."""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import combinations
from math import inf
from pathlib import Path
from typing import Any, Final

from netpipe.device.accelerators import matches
from netpipe.errors import InputError
from netpipe.gate.comparison import Comparison, Outcome
from netpipe.gate.metrics import GATED

FILE: Final = "waivers.toml"
"""Its name, in the folder of baselines."""

_METRICS: Final = tuple(
    dict.fromkeys(metric.name for metrics in GATED.values() for metric in metrics)
)


@dataclass(frozen=True)
class Waiver:
    """One metric of one benchmark that may be worse than its baseline for a while.

    Attributes:
        benchmark: Its full name, path::test.
        metric: Of those that the gate holds.
        bound: At most this many times as bad as the baseline, above 1.
        reason: Why that is accepted, in one line.
        expires: The last day on which it is.
        device: A device key or family; "" for every device.
    """

    benchmark: str
    metric: str
    bound: float
    reason: str
    expires: date
    device: str = ""

    @property
    def words(self) -> str:
        """What is said of the regression that it covers."""
        return f"waived until {self.expires}: {self.reason}"

    @property
    def name(self) -> str:
        """What tells it from others, for a message."""
        return f"{self.metric} in {self.benchmark}" + (f" on {self.device}" if self.device else "")

    def is_expired(self, today: date) -> bool:
        """Return whether its last day is over."""
        return today > self.expires

    def is_for(self, device_key: str) -> bool:
        """Return whether it counts on a device."""
        return not self.device or matches(device_key, self.device)

    def overlaps(self, other: "Waiver") -> bool:
        """Return whether both would count for the same comparison."""
        same = (self.benchmark, self.metric) == (other.benchmark, other.metric)
        return same and (
            not self.device or not other.device or self.is_for(other.device)
            or other.is_for(self.device)
        )  # fmt: skip


def concerning(
    waivers: Iterable[Waiver], benchmark: str, metric: str, device_key: str
) -> Waiver | None:
    """Return the waiver for a metric of a benchmark on a device, expired or not."""
    return next(
        (
            one
            for one in waivers
            if (one.benchmark, one.metric) == (benchmark, metric) and one.is_for(device_key)
        ),
        None,
    )


def waived(
    comparison: Comparison,
    waivers: Iterable[Waiver],
    benchmark: str,
    device_key: str,
    today: date,
) -> Waiver | None:
    """Return the waiver under which a regression does not fail.

    Args:
        comparison: One metric against its baseline.
        waivers: All there are.
        benchmark: Its full name.
        device_key: Of the device that was measured.
        today: Decides which are expired.

    Returns:
        The waiver; None where nothing regressed, or no waiver reaches as far.
    """
    found = concerning(waivers, benchmark, comparison.metric, device_key)
    if found is None or found.is_expired(today) or comparison.outcome is not Outcome.REGRESSED:
        return None
    ratio = comparison.worse_ratio
    return found if ratio is not None and ratio <= found.bound else None


def load(path: Path) -> tuple[Waiver, ...]:
    """Read the waivers of a file; none where there is no file.

    Raises:
        InputError: It is no TOML, holds something else than waivers, or two for the same thing.
    """
    if not path.exists():
        return ()
    waivers = tuple(_waiver(path, place, table) for place, table in enumerate(_tables(path), 1))
    for one, other in combinations(waivers, 2):
        if one.overlaps(other):
            raise InputError(path, "waiver", "be the only one for its metric", f"two: {one.name}")
    return waivers


def _tables(path: Path) -> list[Any]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(path, "file", "be readable", error.strerror) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(path, "file", "be TOML", error) from error
    for key in document:
        if key != "waiver":
            raise InputError(path, "key", "be waiver", repr(key))
    tables = document.get("waiver", [])
    if not isinstance(tables, list):
        raise InputError(path, "waiver", "be an array of tables: [[waiver]]", repr(tables))
    return tables


def _is_line(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value.splitlines()) == 1


def _is_bound(value: object) -> bool:
    return isinstance(value, int | float) and 1 < value < inf


_FIELDS: Final[Mapping[str, tuple[Callable[[object], bool], str]]] = {
    "benchmark": (_is_line, "be the full name of a benchmark, path::test"),
    "metric": (lambda value: value in _METRICS, f"be one of {', '.join(_METRICS)}"),
    "bound": (_is_bound, "be a number above 1"),
    "reason": (_is_line, "be the reason, in one line"),
    # A time of day, which is a date too for Python, would end it within a day.
    "expires": (lambda value: type(value) is date, "be a date, as 2026-12-31 without quotes"),
    "device": (_is_line, "be a device key or a family"),
}
_OPTIONAL: Final = {"device": ""}


def _waiver(path: Path, place: int, table: object) -> Waiver:
    if not isinstance(table, dict):
        raise InputError(path, f"waiver {place}", "be a table: [[waiver]]", repr(table))
    for key in table:
        if key not in _FIELDS:
            raise InputError(
                path, f"key of waiver {place}", f"be one of {', '.join(_FIELDS)}", repr(key)
            )
    return Waiver(**{name: _field(path, place, table, name) for name in _FIELDS})


def _field(path: Path, place: int, table: Mapping[str, Any], name: str) -> Any:
    if name not in table and name in _OPTIONAL:
        return _OPTIONAL[name]
    fits, constraint = _FIELDS[name]
    if name not in table:
        raise InputError(path, f"{name} of waiver {place}", constraint, "none")
    if not fits(table[name]):
        raise InputError(path, f"{name} of waiver {place}", constraint, repr(table[name]))
    return table[name]
