"""Measurements in memory: records during preparation, columns in the pipeline."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

MEASUREMENT = np.dtype(
    [
        ("probe", "<i8"),
        ("time_us", "<i8"),
        ("source", "<i4"),
        ("destination", "<i4"),
        ("rtt_code", "<u2"),
    ]
)
"""One measurement: its probe, microseconds since 1970, numbers in an `AddressTable`, RTT code."""

MeasurementArray = NDArray[np.void]
"""Measurements (n,) of dtype `MEASUREMENT`."""


@dataclass(frozen=True)
class Measurements:
    """Measurements as columns.

    Attributes:
        second: int64 (n,), whole seconds since 1970 (UTC).
        rtt_code: uint16 (n,), as `netpipe.data.formats.rtt` codes it; 0 is a failure.
        is_ipv6: bool (n,), the family of both addresses.
        source: uint8 (n, 16), network order; IPv4 in the first 4, then zeros.
        destination: uint8 (n, 16), like `source`.
    """

    second: NDArray[np.int64]
    rtt_code: NDArray[np.uint16]
    is_ipv6: NDArray[np.bool_]
    source: NDArray[np.uint8]
    destination: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.second)

    def pick(self, places: NDArray[np.int64]) -> "Measurements":
        """Return the measurements at these places."""
        return type(self)(*(getattr(self, field.name)[places] for field in fields(self)))

    @classmethod
    def concatenate(cls, parts: Sequence["Measurements"]) -> "Measurements":
        """Concatenate at least one part."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))
