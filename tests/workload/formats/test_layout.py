"""Rows as bytes, in every layout."""

import dataclasses
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from netpipe.errors import InputError
from netpipe.workload.formats.layout import decode_row, encode_row
from netpipe.workload.formats.rows import Measurements, ProbeRow, take
from tests.workload.factories import as_row, make_pings
from tests.workload.layout_v0 import encode_row_v0


def _assert_equal(expected: ProbeRow | Measurements, found: ProbeRow | Measurements) -> None:
    for name, value in vars(expected).items():
        np.testing.assert_array_equal(getattr(found, name), value, err_msg=name)


@pytest.mark.parametrize("count", [1, 2, 333])
def test_a_row_comes_back(count: int) -> None:
    """Decoding gives back every field of a row, as views of the record."""
    row = as_row(make_pings(count, seed=count), probe=-(2**63))
    back = decode_row(encode_row(row), "here")
    _assert_equal(row, back)
    assert not back.offset_s.flags.owndata


def test_version_0_gives_the_same_row() -> None:
    """The nested Arrow streams of version 0 decode to the row of version 1."""
    pings = make_pings(400, seed=5)
    _assert_equal(as_row(pings, probe=12), decode_row(encode_row_v0(pings, 12), "here"))


def test_version_0_is_put_in_time_order() -> None:
    """Measurements of version 0 are sorted by time, equal times staying as they are."""
    pings = make_pings(50, seed=6)
    shuffled = pings[25:] + pings[:25]
    ordered = sorted(shuffled, key=lambda ping: ping.time_us)
    expected, back = as_row(ordered), decode_row(encode_row_v0(shuffled, 1), "here")
    everywhere = np.arange(50)
    _assert_equal(take([expected], [everywhere]), take([back], [everywhere]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rtt_ms": math.nan}, "column rtt, row 7,.*found nan"),
        ({"rtt_ms": math.inf}, "column rtt, row 7,.*found inf"),
        ({"rtt_ms": None}, "column rtt, row 7,.*found None"),
        ({"source": "nowhere"}, "column src_addr, row 7,.*'nowhere'"),
        ({"ip_version": 5}, "column ip_version, row 7,.*found 5"),
    ],
)
def test_a_bad_value_of_version_0_is_named(change: dict[str, Any], message: str) -> None:
    """Values in a row of version 0 are checked as values in parquet are."""
    pings = make_pings(20, seed=7)
    pings[7] = dataclasses.replace(pings[7], **change)
    with pytest.raises(InputError, match=f"^here: {message}"):
        decode_row(encode_row_v0(pings, 1), "here")


def test_the_stated_number_is_checked() -> None:
    """Contexts are planned with the number beside the measurements, so both must agree."""
    record = encode_row_v0(make_pings(20, seed=8), 1, measurements=21)
    with pytest.raises(InputError, match=r"here: n_measurements.* 20.*found 21"):
        decode_row(record, "here")


def test_a_newer_version_is_refused() -> None:
    """The error of a newer layout names the version, and what to do."""
    record = bytearray(encode_row(as_row(make_pings(3, seed=0))))
    struct.pack_into("<I", record, 4, 2)
    with pytest.raises(InputError, match=r"layout version.* 2\. .*upgrade"):
        decode_row(bytes(record), "here")


@pytest.mark.parametrize("change", [-1, 1, -100])
def test_a_record_of_another_length_is_refused(change: int) -> None:
    """A record that is cut, or longer than it says, is damaged."""
    record = encode_row(as_row(make_pings(30, seed=0)))
    with pytest.raises(InputError, match=f"here: record.*{len(record)} bytes"):
        decode_row((record + b"!")[: len(record) + change], "here")


def test_other_bytes_are_refused() -> None:
    """Bytes that are not a row of any layout are refused."""
    table = pa.table({"other": [1]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    other = sink.getvalue().to_pybytes()
    whole = encode_row_v0(make_pings(30, seed=0), 1)
    for record in (b"", b"NPRW", b"TFRecord" * 20, other, whole[: len(whole) // 2]):
        with pytest.raises(InputError, match=r"here: record.*row"):
            decode_row(record, "here")


@pytest.mark.parametrize("field", ["pair", "pair_source"])
def test_a_number_outside_its_table_is_refused(field: str) -> None:
    """The number of a pair or of a source must be below the length of its table."""
    row = as_row(make_pings(20, seed=0))
    numbers = getattr(row, field).copy()
    numbers[3] = 500
    record = encode_row(dataclasses.replace(row, **{field: numbers}))
    with pytest.raises(InputError, match=rf"here: {field} .*below \d+.*500"):
        decode_row(record, "here")


def test_a_pair_needs_a_table() -> None:
    """The first number, 0, is outside a table without entries."""
    row = as_row(make_pings(1, seed=0))
    bare = dataclasses.replace(
        row, ipv4_pairs=0, pair_source=row.pair_source[:0], source=row.source[:0],
        pair_destination=row.pair_destination[:0],
    )  # fmt: skip
    record = encode_row(bare)
    with pytest.raises(InputError, match=r"here: pair .*below 0; found 0"):
        decode_row(record, "here")
