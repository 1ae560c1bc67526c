"""What a storage is like: its latency, its bandwidth and its limits, and presets with sources."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Final

from netpipe.errors import MisuseError

_UNITS: Final = {
    "us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, "/s": 1.0,
    "kB": 1e3, "MB": 1e6, "GB": 1e9, "kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9,
}  # fmt: skip
# key of a setting: (field, unit that its value has)
_SETTINGS: Final = {
    "latency": ("latency_s", "us|ms|s"),
    "tail": ("tail_latency_s", "us|ms|s"),
    "connection": ("connection_bytes_per_s", "[kMG]B/s"),
    "bandwidth": ("total_bytes_per_s", "[kMG]B/s"),
    "concurrent": ("max_concurrent_reads", ""),
    "rate": ("reads_per_s", "/s"),
    "retry": ("retry_s", "us|ms|s"),
    "failures": ("failure_fraction", ""),
    "cache": ("cache_bytes", "[kMG]B"),
    "warm": ("warm_fraction", ""),
}

_SECONDS: Final = ("be at least 0, and finite", lambda value: 0 <= value < inf)
_SPEED: Final = ("be above 0", lambda value: value > 0)
_CONSTRAINTS: Final[Mapping[str, tuple[str, Callable[[float], bool]]]] = {
    **dict.fromkeys(("latency_s", "tail_latency_s", "retry_s", "cache_bytes"), _SECONDS),
    **dict.fromkeys(("connection_bytes_per_s", "total_bytes_per_s", "reads_per_s"), _SPEED),
    "max_concurrent_reads": (
        "be a whole number from 1 to 1000", lambda most: most == inf or most in range(1, 1001)
    ),
    "failure_fraction": ("be 0 to 0.9", lambda fraction: 0 <= fraction <= 0.9),
    "warm_fraction": ("be 0 to 1", lambda fraction: 0 <= fraction <= 1),
}  # fmt: skip


@dataclass(frozen=True)
class StorageProfile:
    """A storage, as one host sees it.

    Attributes:
        latency_s: Median seconds from a request to its first byte.
        tail_latency_s: The 99th percentile of these; in between the logarithm is normal. 0: every
            read has the median.
        connection_bytes_per_s: Bandwidth of one read.
        total_bytes_per_s: Bandwidth of all reads together.
        max_concurrent_reads: Reads that are served at the same time; further ones wait.
        reads_per_s: Reads that may begin per second.
        retry_s: Seconds until a read that was refused, because of `reads_per_s`, or that failed, is
            requested again; they double with each attempt. 0: such a read waits its turn.
        failure_fraction: Share of the requests that fail after their latency.
        cache_bytes: Size of a cache on the host, which holds what was read first and answers at
            once.
        warm_fraction: Share of the records that the cache holds from the start. 0: it is cold.
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
        for key, (field, _) in _SETTINGS.items():
            value, (constraint, is_met) = getattr(self, field), _CONSTRAINTS[field]
            if not is_met(value):
                raise MisuseError(f"storage {self.name}: {key} must {constraint}; found {value:g}")
        if 0 < self.tail_latency_s < self.latency_s:
            raise MisuseError(
                f"storage {self.name}: tail must be at least the latency, {self.latency_s:g} s; "
                f"found {self.tail_latency_s:g} s"
            )

    @property
    def has_cache(self) -> bool:
        """Whether some reads are answered by a cache on the host."""
        return self.cache_bytes > 0 or self.warm_fraction > 0


PRESETS: Final = {
    preset.name: preset
    for preset in (
        # Samsung PM9A3 data sheet: 4 KiB reads at queue depth 1, 1,100,000 random reads/s,
        # 6.9 GB/s; QD1 latencies of data-centre drives: AnandTech, "Enterprise NVMe Roundup", 2020.
        StorageProfile(
            "local-nvme", latency_s=90e-6, tail_latency_s=150e-6,
            total_bytes_per_s=6.9e9, reads_per_s=1.1e6,
        ),
        # Amazon EBS user guide, gp3 as it comes: 3,000 reads/s and 125 MiB/s, "single-digit
        # millisecond latency".
        StorageProfile(
            "network-disk", latency_s=1e-3, tail_latency_s=5e-3,
            total_bytes_per_s=131e6, reads_per_s=3000,
        ),
        # Durner, Leis and Neumann, "Exploiting Cloud Object Storage for High-Performance
        # Analytics", PVLDB 16(11), 2023: 30 ms and 20 ms for each MiB of a request. Amazon S3,
        # "Performance guidelines": 100 to 200 ms for small objects, 5,500 reads/s of a prefix,
        # and 503 Slow Down beyond. 25 Gbit/s is the network of the host.
        StorageProfile(
            "object-store", latency_s=30e-3, tail_latency_s=200e-3, connection_bytes_per_s=52e6,
            total_bytes_per_s=3.1e9, reads_per_s=5500, retry_s=0.1,
        ),
        # Cloud Storage FUSE, docs/benchmarks.md, random reads: 128 threads read blocks of 128 KiB
        # in 21.8 ms on average, and 1 MiB in 28.9 ms, at most 4.4 GiB/s. At most 100 connections
        # (--max-conns-per-host), as in that test.
        StorageProfile(
            "bucket-mount", latency_s=21e-3, tail_latency_s=200e-3, connection_bytes_per_s=130e6,
            total_bytes_per_s=3.1e9, max_concurrent_reads=100, reads_per_s=5000, retry_s=1.0,
        ),
    )
}  # fmt: skip
"""Cold storage of these kinds by name; docs/storage.md has the sources of the figures."""


def parse_storage(text: str) -> StorageProfile:
    """Parse a preset with settings that replace its own: `object-store,latency=50ms,rate=200/s`.

    Raises:
        MisuseError: A name, a setting or a value is unknown.
    """
    name, *settings = text.split(",")
    if name not in PRESETS:
        raise MisuseError(f"storage must be one of {', '.join(PRESETS)}; found {name!r}")
    changes: dict[str, float] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or key not in _SETTINGS:
            known = ", ".join(f"{key}=..." for key in _SETTINGS)
            raise MisuseError(
                f"storage {name}: a setting must be one of {known}; found {setting!r}"
            )
        field, unit = _SETTINGS[key]
        match = re.fullmatch(rf"(\d{{1,12}}(?:\.\d+)?)({unit})", value)
        if match is None:
            example = f"100{unit.partition('|')[0].replace('[kMG]', 'M')}"
            raise MisuseError(
                f"storage {name}: {key} must be like {key}={example}; found {value!r}"
            )
        changes[field] = float(match[1]) * _UNITS[match[2]]
    return replace(PRESETS[name], name=text, **changes)
