"""Storage profiles (latency, bandwidth and limits) and presets."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Final, NamedTuple

from netpipe.errors import MisuseError

_UNITS: Final = {
    "us": 1e-6, "ms": 1e-3, "s": 1.0, "/s": 1.0, "": 1.0,
    "kB": 1e3, "MB": 1e6, "GB": 1e9, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9,
}  # fmt: skip
_TIME, _SPEED = "us|ms|s", "[kMG]B/s"


class _Setting(NamedTuple):
    field: str
    example: str
    units: str
    constraint: str
    is_met: Callable[[float], bool]


_AT_LEAST_0: Final = ("be at least 0", lambda value: value >= 0)
_ABOVE_0: Final = ("be above 0", lambda value: value > 0)
_SETTINGS: Final = {
    "latency": _Setting("latency_s", "50ms", _TIME, *_AT_LEAST_0),
    "tail": _Setting("tail_latency_s", "200ms", _TIME, *_AT_LEAST_0),
    "connection": _Setting("connection_bytes_per_s", "50MB/s", _SPEED, *_ABOVE_0),
    "bandwidth": _Setting("total_bytes_per_s", "1GB/s", _SPEED, *_ABOVE_0),
    "concurrent": _Setting("max_concurrent_reads", "16", "", "be a whole number from 1 to 1000",
                           lambda most: most == inf or most in range(1, 1001)),
    "rate": _Setting("reads_per_s", "100/s", "/s", *_ABOVE_0),
    "retry": _Setting("retry_s", "100ms", _TIME, *_AT_LEAST_0),
    "failures": _Setting("failure_fraction", "0.01", "", "be 0 to 0.9", lambda it: 0 <= it <= 0.9),
    "cache": _Setting("cache_bytes", "10GB", "[kMG]B", *_AT_LEAST_0),
    "warm": _Setting("warm_fraction", "0.5", "", "be 0 to 1", lambda it: 0 <= it <= 1),
}  # fmt: skip


@dataclass(frozen=True)
class StorageProfile:
    """A storage, as one host sees it.

    Attributes:
        latency_s: Median seconds from a request to its first byte.
        tail_latency_s: 99th percentile of that time; the distribution is log-normal. 0: every
            read takes the median.
        connection_bytes_per_s: Bandwidth of one read.
        total_bytes_per_s: Bandwidth of all reads together.
        max_concurrent_reads: Number of reads served at the same time; further reads wait.
        reads_per_s: Number of reads that may begin per second.
        retry_s: Longest backoff before a read that failed, or exceeded `reads_per_s`, is requested
            again. The backoff is random, and its limit doubles with each attempt. 0: reads beyond
            the rate wait their turn, and failed reads are requested again at once.
        failure_fraction: Share of the requests that fail after their latency.
        cache_bytes: Size of a cache on the host, which keeps the first records read.
        warm_fraction: Share of the records that the cache holds from the start. 0: a cold cache.
    """

    name: str
    latency_s: float = 0.0
    tail_latency_s: float = 0.0
    connection_bytes_per_s: float = inf
    total_bytes_per_s: float = inf
    max_concurrent_reads: float = inf
    reads_per_s: float = inf
    retry_s: float = 0.0
    failure_fraction: float = 0.0
    cache_bytes: float = 0.0
    warm_fraction: float = 0.0

    def __post_init__(self) -> None:
        """Check the values that a user can set."""
        for key, (field, *_, constraint, is_met) in _SETTINGS.items():
            if not is_met(value := getattr(self, field)):
                raise MisuseError(f"storage {self.name}: {key} must {constraint}; found {value:g}")
        if self.tail_latency_s and not 0 < self.latency_s <= self.tail_latency_s:
            raise MisuseError(
                f"storage {self.name}: tail must be 0s, or at least a latency above 0; found "
                f"latency={1e3 * self.latency_s:g}ms, tail={1e3 * self.tail_latency_s:g}ms"
            )


PRESETS: Final = {
    preset.name: preset
    for preset in (
        StorageProfile(
            "local-nvme", latency_s=80e-6, tail_latency_s=150e-6,
            total_bytes_per_s=6.8e9, reads_per_s=1e6,
        ),
        StorageProfile(
            "network-disk", latency_s=1e-3, tail_latency_s=5e-3,
            total_bytes_per_s=131e6, reads_per_s=3000,
        ),
        StorageProfile(
            "object-store", latency_s=30e-3, tail_latency_s=200e-3, connection_bytes_per_s=52e6,
            total_bytes_per_s=3.1e9, reads_per_s=5500, retry_s=0.1,
        ),
        StorageProfile(
            "bucket-mount", latency_s=15e-3, tail_latency_s=100e-3, connection_bytes_per_s=130e6,
            total_bytes_per_s=3.1e9, max_concurrent_reads=100, reads_per_s=5000, retry_s=1.0,
        ),
    )
}  # fmt: skip
"""Storages with a cold cache, by name; docs/storage.md has the source of each figure."""


def parse_storage(text: str) -> StorageProfile:
    """Return a preset with the settings that override it: `object-store,latency=50ms,rate=200/s`.

    Raises:
        MisuseError: A name or a setting is unknown, or a value is invalid.
    """
    name, *settings = text.split(",")
    if name not in PRESETS:
        raise MisuseError(f"storage must be one of {', '.join(PRESETS)}; found {name!r}")
    changes: dict[str, float] = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        if key not in _SETTINGS:
            known = ", ".join(_SETTINGS)
            raise MisuseError(f"storage {name}: setting must be one of {known}; found {setting!r}")
        field, example, units, *_ = _SETTINGS[key]
        match = re.fullmatch(rf"(\d{{1,12}}(?:\.\d+)?)({units})", value)
        if match is None:
            raise MisuseError(f"storage {name}: {key} must be like {example}; found {value!r}")
        changes[field] = float(match[1]) * _UNITS[match[2]]
    return replace(PRESETS[name], name=text, **changes)
