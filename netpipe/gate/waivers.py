"""Waivers: accepted slowdowns with a bound, a reason and a last day, from `waivers.toml`."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import date
from itertools import combinations
from pathlib import Path
from sys import float_info
from typing import Annotated, Any, Final

from netpipe.device.accelerators import matches
from netpipe.errors import InputError
from netpipe.files.text_files import quote, read_toml, shorten
from netpipe.gate.metrics import METRICS
from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.results.fields import Must
from netpipe.results.work_profile import KINDS

_WAIVABLE: Final = (*METRICS, *KINDS)

FILE: Final = "waivers.toml"
"""The name of the waivers' file in the folder of baselines."""


@dataclass(frozen=True)
class Waiver:
    """A temporary permission for a benchmark's metric to be up to `bound` times as bad."""

    benchmark: str
    metric: str
    bound: Annotated[float, Must(exclusiveMinimum=1)]  #: The largest `worse_ratio` that is waived.
    reason: str
    expires: date  #: The last day on which the waiver applies, such as 2026-12-31.
    device: str = ""  #: A device key or family; empty for all devices.

    @property
    def remark(self) -> str:
        """The remark to show beside a regression that the waiver covers."""
        return f"waived until {self.expires}: {self.reason}"

    @property
    def name(self) -> str:
        """The metric, benchmark and device, for messages."""
        return f"{self.metric} in {self.benchmark}" + (f" on {self.device}" if self.device else "")

    def is_for(self, device_key: str) -> bool:
        """Return whether the waiver applies to a device."""
        return not self.device or matches(device_key, self.device)

    def overlaps(self, other: "Waiver") -> bool:
        """Return whether two waivers can apply to the same comparison."""
        same = (self.benchmark, self.metric) == (other.benchmark, other.metric)
        return same and (not other.device or self.is_for(other.device) or other.is_for(self.device))


def apply_waivers(
    waivers: Iterable[Waiver], comparison: Comparison, benchmark: str, device_key: str, today: date
) -> tuple[Comparison, Waiver | None]:
    """Return the comparison of one metric, and the waiver that covers its regression, or None.

    If a waiver exists but does not cover the regression, the comparison's reason says why.
    """
    if comparison.outcome is not Outcome.REGRESSED:
        return comparison, None
    for waiver in waivers:
        names = (waiver.benchmark, waiver.metric)
        if names == (benchmark, comparison.metric) and waiver.is_for(device_key):
            if today > waiver.expires:
                why = f"expired on {waiver.expires}"
            elif comparison.worse_ratio is None:
                why = "cannot cover a rise from 0: record a new baseline"
            elif comparison.worse_ratio > waiver.bound:
                why = f"allows {waiver.bound:g} x"
            else:
                return comparison, waiver
            return replace(comparison, reason=f"{comparison.reason}; its waiver {why}"), None
    return comparison, None


def load(path: Path) -> tuple[Waiver, ...]:
    """Read the waivers from a file, if it exists; raise an InputError if it is invalid."""
    if not path.exists():
        return ()
    document = read_toml(path)
    tables = document.pop("waiver", [])
    if document:
        raise InputError(path, "key", "be waiver", quote(next(iter(document))))
    if not isinstance(tables, list):
        raise InputError(path, "waiver", "be an array of tables: [[waiver]]", quote(tables))
    waivers = tuple(_waiver(path, index, table) for index, table in enumerate(tables, 1))
    for waiver, other in combinations(waivers, 2):
        if waiver.overlaps(other):
            found = f"two: {shorten(waiver.name)}"
            raise InputError(path, "waiver", "be the only one for its metric", found)
    return waivers


def _is_line(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and len(value.splitlines()) == 1


_FIELDS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "benchmark": (_is_line, "be the full name of a benchmark, path::test"),
    "metric": (lambda value: value in _WAIVABLE, f"be one of {', '.join(_WAIVABLE)}"),
    "bound": (
        lambda value: isinstance(value, int | float) and 1 < value <= float_info.max,
        "be a number above 1",
    ),
    "reason": (_is_line, "be the reason, in one line"),
    # A Python datetime is also a date, but it would end a waiver in the middle of a day.
    "expires": (lambda value: type(value) is date, "be a date such as 2026-12-31, without quotes"),
    "device": (_is_line, "be a device key or a family"),
}


def _waiver(path: Path, index: int, table: object) -> Waiver:
    if not isinstance(table, dict):
        raise InputError(path, f"waiver {index}", "be a table: [[waiver]]", quote(table))
    for key in table:
        if key not in _FIELDS:
            constraint = f"be one of {', '.join(_FIELDS)}"
            raise InputError(path, f"key of waiver {index}", constraint, quote(key))
    for name, (fits, constraint) in _FIELDS.items():
        is_right = fits(table[name]) if name in table else name == "device"
        if not is_right:
            found = quote(table[name]) if name in table else "none"
            raise InputError(path, f"{name} of waiver {index}", constraint, found)
    waiver = Waiver(**table)
    if waiver.metric in KINDS and waiver.device:
        constraint = f"be absent for {waiver.metric}, which is the same on every device"
        raise InputError(path, f"device of waiver {index}", constraint, quote(waiver.device))
    return waiver
