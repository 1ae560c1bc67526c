"""Emulated accelerators: their names, and the time of a step on them."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final

from netpipe.device.accelerators import names_with_peak, peak_flops_of_name
from netpipe.errors import MisuseError

Flops = float | Callable[[], float] | None
"""The FLOPs of one step, or a callable without arguments that counts them; None if unknown."""

_SPEC: Final = re.compile(
    r"emulated:((?P<time>\d{1,9}(\.\d+)?(us|ms|s))"
    r"|((?P<count>[1-9]\d{0,8})x)?(?P<name>[a-z][a-z\d-]*))"
    r"(@(?P<rate>\d{1,9}(\.\d+)?(MB|GB)/s))?"
)
_MAX_STEP_S: Final = 1e9  # times in nanoseconds are stored in 64 bits
_QUANTITY: Final = re.compile(r"([\d.]+)(\D+)")
_UNITS: Final = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "MB/s": 1e6, "GB/s": 1e9}
_NOT_IN_A_KEY: Final = re.compile(r"[^a-z\d.+]+")


@dataclass(frozen=True)
class EmulatedAccelerator:
    """An accelerator whose steps take time but compute nothing.

    Attributes:
        key: Its device key, such as `emulated-h100-x8-25gb-s`.
        set_step_s: The time of every step in seconds; None if it is derived from the step's FLOPs.
        peak_flops: FLOP/s of all devices together; 0 if the name states the time of a step.
    """

    name: str
    key: str
    count: int = 1
    set_step_s: float | None = None
    peak_flops: float = 0.0
    copy_bytes_per_s: float = inf

    def derive_step_s(self, flops: Flops, mfu: float) -> tuple[float, str]:
        """Return the seconds per step, and a text with the name and the figures used.

        The time is taken from the name, or is FLOPs / (peak x MFU).

        Args:
            flops: FLOPs of a step on the host's whole batch; counted only when needed.
            mfu: Model FLOPs utilisation (PaLM, arXiv 2204.02311, appendix B).

        Raises:
            MisuseError: The FLOPs are needed but not known.
        """
        if self.set_step_s is not None:
            return self.set_step_s, self.name
        counted = count_flops(flops)
        if counted is None:
            raise MisuseError(
                f"{self.name} needs the FLOPs of a step; found none. Give --flops-per-step (under "
                "pytest --netpipe-flops-per-step or the fixture netpipe_flops_per_step), a step "
                "factory with an attribute flops_per_step, or a step time such as emulated:36ms"
            )
        step_s = counted / (self.peak_flops * mfu)
        if step_s >= _MAX_STEP_S:
            raise MisuseError(f"{self.name} must take less than 1e9 s a step; found {step_s:g} s")
        return step_s, f"{self.name}, {counted / 1e12:.3g} TFLOP a step at MFU {mfu:g}"


def check_flops(flops: float) -> float:
    """Return the FLOPs of a step; raise a MisuseError unless they are above 0 and finite."""
    if not 0 < flops < inf:
        raise MisuseError(f"the FLOPs of a step must be above 0, and finite; found {flops:g}")
    return flops


def count_flops(flops: Flops) -> float | None:
    """Return the FLOPs per step from the step factory's attribute: a number, a callable or None."""
    counted = flops() if callable(flops) else flops
    return None if counted is None else float(check_flops(counted))


def parse_accelerator(text: str) -> EmulatedAccelerator | None:
    """Return the named accelerator, None for `auto`; raise a MisuseError for an unknown name."""
    if text == "auto":
        return None
    match = _SPEC.fullmatch(text)
    emulated = match and _from_match(match)
    if not emulated:
        raise MisuseError(
            "accelerator must be auto, emulated:<time> such as emulated:36ms, or emulated:<name> "
            f"such as emulated:8xh100, with a name of {', '.join(names_with_peak())}; both may end "
            f"in a bandwidth such as @25GB/s; found {text!r}"
        )
    return emulated


def parse_accelerators(text: str) -> tuple[str, ...]:
    """Split a list such as `auto, emulated:36ms`; raise a MisuseError for an unknown name."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        parse_accelerator(name)
    return names


def _from_match(match: re.Match[str]) -> EmulatedAccelerator | None:
    """Return the accelerator of a match; None for an unknown model, or a time or bandwidth of 0."""
    name, count, time, rate = match.group("name", "count", "time", "rate")
    peak = peak_flops_of_name(name) if name else 0.0
    set_step_s, copy_bytes_per_s = _quantity(time), _quantity(rate)
    if peak is None or 0.0 in (set_step_s, copy_bytes_per_s):
        return None
    devices = int(count or 1)
    parts = ("emulated", time or f"{name}-x{devices}", rate)
    return EmulatedAccelerator(
        name=match[0],
        key=_NOT_IN_A_KEY.sub("-", "-".join(part for part in parts if part).lower()),
        count=devices,
        set_step_s=set_step_s,
        peak_flops=devices * peak,
        copy_bytes_per_s=inf if copy_bytes_per_s is None else copy_bytes_per_s,
    )


def _quantity(text: str | None) -> float | None:
    """Convert a number with a unit to seconds or bytes per second; return None for None."""
    match = _QUANTITY.fullmatch(text or "")
    return float(match[1]) * _UNITS[match[2]] if match else None
