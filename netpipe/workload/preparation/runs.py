"""Runs: files of checked measurements, grouped by bucket and sorted.

A bucket holds the probes with one hash value. A run of about a million measurements is sorted in
memory by bucket, probe and time. `read_bucket` joins a bucket's sections from all runs. A bucket
that is too large for memory is read in pieces, each a range of probes and times. Sections are
sorted, so the range is contiguous in every section.

    header      int64 (buckets, 2): measurements and addresses of each bucket
    section     for each bucket: its measurements, whose addresses are numbered within the section;
                then these addresses, each with its octets, u8 x 16, and its family, u8
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.lib.recfunctions import repack_fields
from numpy.typing import NDArray

from netpipe.workload.formats.addresses import ADDRESS, AddressTable
from netpipe.workload.formats.places import Place
from netpipe.workload.formats.rows import (
    MEASUREMENT,
    MeasurementArray,
    number_values,
    sort_by_probe,
)
from netpipe.workload.sampling.counter_rng import fold_key

PIECE_MEASUREMENTS = 1 << 22
"""Approximate maximum number of a bucket's measurements in memory at once."""

_SAMPLED_EVERY = 1 << 12


def find_buckets(probes: NDArray[np.int64], buckets: int) -> NDArray[np.int64]:
    """Return the bucket of each probe, int64 (n,)."""
    return (fold_key(probes) % np.uint64(buckets)).astype(np.int64)


def write_run(
    place: Place, measurements: MeasurementArray, addresses: AddressTable, buckets: int
) -> None:
    """Sort measurements (n,), and write them as a run; equal times keep their order."""
    measurements = sort_by_probe(measurements, lambda probes: find_buckets(probes, buckets))
    bucket = find_buckets(np.ascontiguousarray(measurements["probe"]), buckets)
    ends = np.cumsum(np.bincount(bucket, minlength=buckets))
    header, content = np.zeros((buckets, 2), "<i8"), list[NDArray[np.void]]()
    for number, section in enumerate(np.split(measurements, ends[:-1])):
        if not len(section):
            continue
        both = np.concatenate([section["source"], section["destination"]])
        used, slots = number_values(both, len(addresses))
        section["source"], section["destination"] = slots[: len(section)], slots[len(section) :]
        header[number] = len(section), len(used)
        content += [section, addresses.take(used)]
    place.write(header, *content)


@dataclass(frozen=True)
class Run:
    """A run in a local file, and its number of buckets."""

    place: Place
    buckets: int

    @cached_property
    def _header(self) -> NDArray[np.int64]:
        return np.fromfile(self.place.path, "<i8", 2 * self.buckets).reshape(-1, 2)

    def section(self, bucket: int) -> "Section":
        """Return the section for a bucket."""
        sizes = self._header @ np.array([MEASUREMENT.itemsize, ADDRESS.itemsize])
        measurements, addresses = self._header[bucket].tolist()
        offset = self._header.nbytes + int(sizes[:bucket].sum())
        return Section(self, offset, measurements, addresses)


@dataclass(frozen=True)
class Section:
    """The measurements of one bucket in one run, sorted by probe and time."""

    run: Run
    offset: int
    measurements: int
    addresses: int

    def read(self, first: int = 0, end: int | None = None) -> MeasurementArray:
        """Return the measurements from `first` up to `end`, by default all."""
        count = (self.measurements if end is None else end) - first
        offset = self.offset + first * MEASUREMENT.itemsize
        return np.fromfile(self.run.place.path, MEASUREMENT, count, offset=offset)

    def read_addresses(self) -> NDArray[np.void]:
        """Return the addresses that the measurements refer to by number."""
        end = self.offset + self.measurements * MEASUREMENT.itemsize
        return np.fromfile(self.run.place.path, ADDRESS, self.addresses, offset=end)


def read_bucket(
    runs: Sequence[Run], bucket: int, limit: int = PIECE_MEASUREMENTS
) -> Iterator[tuple[MeasurementArray, NDArray[np.void]]]:
    """Yield the measurements of a bucket, sorted by probe and time, and their addresses.

    At equal times, those of an earlier run come first. There is one piece unless the bucket has
    more than `limit` measurements; a probe's history may then continue in the next piece.
    """
    sections = [section for run in runs if (section := run.section(bucket)).measurements]
    for bounds in _find_pieces(sections, limit):
        parts = [
            (section, first, end)
            for section, (first, end) in zip(sections, bounds, strict=True)
            if end > first
        ]
        if not parts:
            continue
        tables = [section.read_addresses() for section, _, _ in parts]
        addresses, places = _join_addresses(tables)
        total = sum(end - first for _, first, end in parts)
        together, filled = np.empty(total, MEASUREMENT), 0
        for (section, first, end), place in zip(parts, places, strict=True):
            read = together[filled : filled + end - first]
            read[:] = section.read(first, end)
            for name in ("source", "destination"):
                read[name] = place[read[name]]
            filled += end - first
        yield (sort_by_probe(together) if len(parts) > 1 else together), addresses


def _find_pieces(sections: Sequence[Section], limit: int) -> Iterator[list[tuple[int, int]]]:
    """Yield the bounds of each piece: the indices where it begins and ends in each section."""
    lengths = [section.measurements for section in sections]
    starts = [0] * len(sections)
    if sum(lengths) > limit:
        for cut in zip(*_find_cuts(sections, limit), strict=True):
            yield list(zip(starts, cut, strict=True))
            starts = list(cut)
    yield list(zip(starts, lengths, strict=True))


def _find_cuts(sections: Sequence[Section], limit: int) -> list[list[int]]:
    """Return the indices at which each section is cut into pieces.

    Each piece has about `limit` measurements over all sections. The cuts are at sampled
    measurements. A measurement with the probe and time of a cut belongs to the piece before the
    cut if its section comes before that of the sample.
    """
    # The end of a section after its last sample is not counted, so samples are close together.
    every = max(1, min(_SAMPLED_EVERY, limit // (4 * len(sections))))
    sampled = [_keys(section)[every - 1 :: every] for section in sections]
    numbers = np.repeat(np.arange(len(sampled)), list(map(len, sampled)))
    samples = np.concatenate(sampled)
    order = np.lexsort((numbers, samples["time_us"], samples["probe"]))
    order = order[limit // every :: limit // every]
    cuts = list(zip(samples[order], numbers[order].tolist(), strict=True))
    return [
        [int(keys.searchsorted(cut, "right" if number < owner else "left")) for cut, owner in cuts]
        for number, keys in enumerate(map(_keys, sections))
    ]


def _keys(section: Section) -> NDArray[np.void]:
    """Return the probes and times of a section, (measurements,), which compare in this order."""
    return repack_fields(section.read()[["probe", "time_us"]])


def _join_addresses(
    tables: Sequence[NDArray[np.void]],
) -> tuple[NDArray[np.void], list[NDArray[np.int32]]]:
    """Join tables without duplicate addresses; also return the new numbers of each table."""
    together = np.concatenate(tables)
    kind = pa.binary(ADDRESS.itemsize)
    stored = [None, pa.py_buffer(together)]
    encoded = pa.Array.from_buffers(kind, len(together), stored).dictionary_encode()
    distinct = np.frombuffer(encoded.dictionary.buffers()[1], ADDRESS, len(encoded.dictionary))
    ends = np.cumsum([len(table) for table in tables])[:-1]
    return distinct, np.split(encoded.indices.to_numpy(), ends)
