"""Measurements in memory, and probe rows: a probe's consecutive measurements, ready to sample."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from netpipe.workload.formats.addresses import Addresses

MAX_ROW_MEASUREMENTS = 1 << 16
"""Pairs are numbered in 16 bits, and a row has at most one pair per measurement."""

ROW_BYTES = 128 * 1024
"""Drawing a context reads the whole row, so this bounds the bytes read per token."""

_MAX_OFFSET_S = (1 << 32) - 1
# Up to this many possible values per given value, a lookup table is faster than sorting.
_DENSE_FACTOR = 16

MEASUREMENT = np.dtype(
    [
        ("probe", "<i8"),
        ("time_us", "<i8"),
        ("source", "<i4"),
        ("destination", "<i4"),
        ("rtt_code", "<u2"),
    ]
)
"""One measurement: probe, microseconds since 1970, numbers in an `AddressTable`, and RTT code."""

MeasurementArray = NDArray[np.void]
"""Measurements (n,) of dtype `MEASUREMENT`."""


def hash_rows(described: NDArray[np.int64]) -> str:
    """Return a hash that identifies rows by some of their numbers, int64 (rows, numbers)."""
    return blake2b(np.ascontiguousarray(described).tobytes(), digest_size=16).hexdigest()


@dataclass(frozen=True)
class Measurements:
    """Measurements as columns.

    Attributes:
        second: int64 (n,), whole seconds since 1970 (UTC).
        rtt_code: uint16 (n,), as `netpipe.workload.formats.rtt` encodes it; 0 means failed.
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

    def pick(self, indices: NDArray[np.int64]) -> "Measurements":
        """Return the measurements at these indices."""
        return type(self)(*(getattr(self, field.name)[indices] for field in fields(self)))

    @classmethod
    def concatenate(cls, parts: Sequence["Measurements"]) -> "Measurements":
        """Concatenate one or more parts."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


@dataclass(frozen=True)
class ProbeRow:
    """Consecutive measurements of one probe, in time order.

    Each measurement has the number of its pair of source and destination. IPv4 pairs come first,
    so the number determines the family.

    Attributes:
        first_s: Seconds since 1970 (UTC) of the first measurement.
        offset_s: uint32 (measurements,), seconds since `first_s`, never decreasing.
        rtt_code: uint16 (measurements,), as `netpipe.workload.formats.rtt` encodes it.
        pair: uint16 (measurements,); uint32 in a layout 0 row with more than 65,536 pairs.
        pair_source: uint16 or uint32 like `pair`, (pairs,), an index into `source`.
        pair_destination: uint8 (pairs, 16), network order, IPv4 in the first 4.
        source: uint8 (sources, 16), network order, IPv4 in the first 4.
    """

    probe: int
    first_s: int
    ipv4_pairs: int
    offset_s: NDArray[np.uint32]
    rtt_code: NDArray[np.uint16]
    pair: NDArray[np.uint16 | np.uint32]
    pair_source: NDArray[np.uint16 | np.uint32]
    pair_destination: NDArray[np.uint8]
    source: NDArray[np.uint8]

    def __len__(self) -> int:
        return len(self.offset_s)

    @property
    def array_bytes(self) -> int:
        """The total size of the arrays in bytes."""
        arrays = (value for value in vars(self).values() if isinstance(value, np.ndarray))
        return sum(array.nbytes for array in arrays)


def take(rows: Sequence[ProbeRow], positions: Sequence[NDArray[np.int64]]) -> Measurements:
    """Return the measurements at the given positions of one or more rows, row by row."""
    taken = [len(indices) for indices in positions]
    both = list(zip(rows, positions, strict=True))
    pair = np.concatenate([row.pair.take(indices) for row, indices in both]).astype(np.int64)
    offset_s = np.concatenate([row.offset_s.take(indices) for row, indices in both])
    rtt_code = np.concatenate([row.rtt_code.take(indices) for row, indices in both])
    pairs = np.array([len(row.pair_source) for row in rows])
    sources = np.array([len(row.source) for row in rows])
    # The tables of all rows are concatenated, so a row's numbers are shifted by the sizes of the
    # tables before its own.
    source_of_pair = np.concatenate([row.pair_source for row in rows]) + np.repeat(
        np.cumsum(sources) - sources, pairs
    )
    number = pair + np.repeat(np.cumsum(pairs) - pairs, taken)
    return Measurements(
        second=offset_s + np.repeat(np.array([row.first_s for row in rows], np.int64), taken),
        rtt_code=rtt_code,
        is_ipv6=pair >= np.repeat([row.ipv4_pairs for row in rows], taken),
        source=np.concatenate([row.source for row in rows])[source_of_pair[number]],
        destination=np.concatenate([row.pair_destination for row in rows])[number],
    )


def split_sorted(measurements: MeasurementArray) -> list[MeasurementArray]:
    """Return the history of each probe, given measurements (n,), n >= 1, sorted by probe."""
    probe = np.ascontiguousarray(measurements["probe"])
    return np.split(measurements, np.flatnonzero(probe[1:] != probe[:-1]) + 1)


def sort_by_probe(
    measurements: MeasurementArray,
    find_group: Callable[[NDArray[np.int64]], NDArray[np.int64]] = np.zeros_like,
) -> MeasurementArray:
    """Sort stably by the group of the probe, then by probe, then by time."""
    # Contiguous copies, since the values of a field are 26 bytes apart.
    time_us = np.ascontiguousarray(measurements["time_us"])
    encoded = pa.array(np.ascontiguousarray(measurements["probe"])).dictionary_encode()
    probes = encoded.dictionary.to_numpy()
    place = np.empty(len(probes), np.uint16 if len(probes) <= 1 << 16 else np.uint32)
    place[np.lexsort((probes, find_group(probes)))] = np.arange(len(probes))
    probe = place[encoded.indices.to_numpy()]
    # Times are nearly sorted already, and numpy uses a radix sort for 16-bit numbers.
    order = np.argsort(time_us, kind="stable")
    order = order[np.argsort(probe[order], kind="stable")]
    return measurements[order]


def cut_rows(history: MeasurementArray, addresses: Addresses) -> Iterator[ProbeRow]:
    """Yield rows of about equal length, cut from the measurements (n,), n >= 1, of one probe.

    The measurements are in time order. The arrays of a row take at most `ROW_BYTES`, unless the
    row has a single measurement.
    """
    pieces = -(-len(history) // MAX_ROW_MEASUREMENTS)
    if _seconds(history[-1:])[0] - _seconds(history[:1])[0] > _MAX_OFFSET_S:
        pieces = max(pieces, 2)
    if pieces == 1:
        row = make_row(history, addresses)
        pieces = min(-(-row.array_bytes // ROW_BYTES), len(history))
        if pieces == 1:
            yield row
            return
    for piece in np.array_split(history, pieces):
        yield from cut_rows(piece, addresses)


def make_row(history: MeasurementArray, addresses: Addresses) -> ProbeRow:
    """Return one row of the measurements (n,), n >= 1, of one probe, in time order."""
    second = _seconds(history)
    source, source_slot = number_values(history["source"], len(addresses))
    destination, destination_slot = number_values(history["destination"], len(addresses))
    destinations = addresses.take(destination)
    is_ipv6 = destinations["family"] == 6
    code = source_slot * len(destination) + destination_slot
    # The family is the most significant part of the number, so IPv4 pairs are sorted first.
    code += is_ipv6[destination_slot] * (len(source) * len(destination))
    pairs, pair = number_values(code, 2 * len(source) * len(destination))
    pair_source, pair_destination = np.divmod(
        pairs % (len(source) * len(destination)), len(destination)
    )
    number = np.uint16 if len(pairs) <= MAX_ROW_MEASUREMENTS else np.uint32
    return ProbeRow(
        probe=int(history["probe"][0]),
        first_s=int(second[0]),
        ipv4_pairs=int(np.count_nonzero(~is_ipv6[pair_destination])),
        offset_s=(second - second[0]).astype(np.uint32),
        rtt_code=np.ascontiguousarray(history["rtt_code"]),
        pair=pair.astype(number),
        pair_source=pair_source.astype(number),
        pair_destination=destinations["octets"][pair_destination],
        source=addresses.take(source)["octets"].copy(),
    )


def number_values(
    values: NDArray[np.signedinteger[Any]], bound: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the distinct values, all in [0, bound), and the index of each value among them."""
    if bound > _DENSE_FACTOR * len(values):
        distinct, places = np.unique(values, return_inverse=True)
        return distinct.astype(np.int64), places
    # This needs no sorting, and takes a tenth of the time.
    is_there = np.zeros(bound, np.bool_)
    is_there[values] = True
    return np.flatnonzero(is_there), (np.cumsum(is_there) - 1)[values]


def _seconds(history: MeasurementArray) -> NDArray[np.int64]:
    return np.asarray(history["time_us"] // 1_000_000)
