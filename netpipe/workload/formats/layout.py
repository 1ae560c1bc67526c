"""The layouts in which a probe row is encoded as the bytes of a record, and their decoding.

Layout 0 is inherited: see `_decode_row_v0`. Layout 1 is little-endian and stores the arrays
of `ProbeRow` widest first, so that each is aligned. The arrays of a decoded row are views of the
record.

    header   4s magic, u32 version, i64 probe, i64 first_s,
             u32 measurements, u32 pairs, u32 ipv4_pairs, u32 sources
    arrays   offset_s u32, rtt_code u16, pair u16, pair_source u16,
             pair_destination u8 x 16, source u8 x 16
"""

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from netpipe.errors import InputError
from netpipe.workload.formats.addresses import ADDRESS_BYTES, AddressTable
from netpipe.workload.formats.parquet import check_columns, check_measurements
from netpipe.workload.formats.rows import ProbeRow, make_row

LAYOUT_VERSION = 1
ARROW_STREAM_START = b"\xff\xff\xff\xff"
_MAGIC = b"NPRW"
_HEADER = struct.Struct("<4sIqqIIII")


def encode_row(row: ProbeRow) -> bytes:
    """Encode a row in the newest layout."""
    counts = len(row), len(row.pair_source), row.ipv4_pairs, len(row.source)
    header = _HEADER.pack(_MAGIC, LAYOUT_VERSION, row.probe, row.first_s, *counts)
    arrays = (
        row.offset_s.astype("<u4"),
        row.rtt_code.astype("<u2"),
        row.pair.astype("<u2"),
        row.pair_source.astype("<u2"),
        row.pair_destination,
        row.source,
    )
    return header + b"".join(array.tobytes() for array in arrays)


def decode_row(record: bytes | memoryview, where: object) -> ProbeRow:
    """Return the row of a record in any known layout; `where` names the record in errors."""
    if record[: len(_MAGIC)] == _MAGIC and len(record) >= _HEADER.size:
        return _decode_row_v1(record, where)
    if record[: len(ARROW_STREAM_START)] == ARROW_STREAM_START:
        return _decode_row_v0(bytes(record), where)
    raise InputError(where, "record", "be a probe row", f"{len(record)} bytes of something else")


def _decode_row_v1(record: bytes | memoryview, where: object) -> ProbeRow:
    _, version, probe, first_s, measurements, pairs, ipv4_pairs, sources = _HEADER.unpack_from(
        record
    )
    check_layout_version(version, where)
    lengths = {"<u4": measurements, "<u2": 2 * measurements + pairs}
    octets = (pairs + sources) * ADDRESS_BYTES
    expected = _HEADER.size + 4 * lengths["<u4"] + 2 * lengths["<u2"] + octets
    if len(record) != expected:
        raise InputError(where, "record", f"be {expected} bytes long", len(record))
    if not measurements or ipv4_pairs > pairs:
        found = f"{measurements}, and {ipv4_pairs} IPv4 pairs of {pairs}"
        raise InputError(where, "measurements", "be at least 1, of known pairs", found)
    offset_s = np.frombuffer(record, "<u4", measurements, _HEADER.size)
    words = np.frombuffer(record, "<u2", lengths["<u2"], _HEADER.size + offset_s.nbytes)
    pair, pair_source = words[measurements : 2 * measurements], words[2 * measurements :]
    for field, numbers, known in (("pair", pair, pairs), ("pair_source", pair_source, sources)):
        if (largest := np.maximum.reduce(numbers, initial=0)) >= known:
            raise InputError(where, field, f"be below {known}", largest)
    tables = np.frombuffer(record, np.uint8, octets, expected - octets).reshape(-1, ADDRESS_BYTES)
    return ProbeRow(
        probe=probe,
        first_s=first_s,
        ipv4_pairs=ipv4_pairs,
        offset_s=offset_s,
        rtt_code=words[:measurements],
        pair=pair,
        pair_source=pair_source,
        pair_destination=tables[:pairs],
        source=tables[pairs:],
    )


def check_layout_version(version: int, where: object) -> None:
    """Raise an InputError for a layout that is newer than this code."""
    if not 0 <= version <= LAYOUT_VERSION:
        constraint = f"be between 0 and {LAYOUT_VERSION}"
        way_out = "A newer netpipe wrote it: upgrade, or prepare the measurements again"
        raise InputError(where, "layout version", constraint, version, way_out)


def _decode_row_v0(record: bytes, where: object) -> ProbeRow:
    """Return the row of a layout 0 record, in time order.

    The record is an Arrow stream of one row with `src_id` int64, `n_measurements` int32 and
    `measurements` binary: a stream of `event_time` timestamp(us), `src_addr` and `dst_addr` utf8,
    `ip_version` int8 and `rtt` float32. Anything else raises an InputError.
    """
    with _named_errors(where):
        outer = _read_batch(record)
        columns = _read_batch(outer["measurements"][0].as_py())
        probe, measurements = _probe_and_measurements(outer)
        if columns.num_rows != measurements:
            raise InputError(where, "n_measurements", f"be {columns.num_rows}", measurements)
        names = [name for name in check_columns(where, columns.schema) if name != "prb_id"]
        probes = pa.array(np.full(columns.num_rows, probe, np.int64))
        columns = columns.select(names).append_column("prb_id", probes)
        addresses = AddressTable()
        history = check_measurements(where, columns, addresses)
        return make_row(history[np.argsort(history["time_us"], kind="stable")], addresses)


def count_row_v0(record: bytes, where: object) -> tuple[int, int]:
    """Return a layout 0 record's stated probe and length; raise an InputError for invalid ones."""
    with _named_errors(where):
        probe, measurements = _probe_and_measurements(_read_batch(record))
    if measurements < 1:
        raise InputError(where, "n_measurements", "be at least 1", measurements)
    return probe, measurements


@contextmanager
def _named_errors(where: object) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(where, "record", "be a probe row of layout 0", error) from error


def _read_batch(stream: bytes) -> pa.RecordBatch:
    return pa.ipc.open_stream(stream).read_all().combine_chunks().to_batches()[0]


def _probe_and_measurements(outer: pa.RecordBatch) -> tuple[int, int]:
    return int(outer["src_id"][0].as_py()), int(outer["n_measurements"][0].as_py())
