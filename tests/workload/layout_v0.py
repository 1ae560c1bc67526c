"""Writes the inherited layout, version 0, so that reading it can be tested."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from array_record.python.array_record_module import ArrayRecordWriter

from tests.workload.factories import as_table
from tests.workload.reference import Ping


def write_records(path: Path, records: Sequence[bytes]) -> None:
    """Write an ArrayRecord file."""
    writer = ArrayRecordWriter(str(path), "group_size:1")
    for record in records:
        writer.write(record)
    writer.close()


def encode_row_v0(
    pings: Sequence[Ping], probe: int | None, measurements: int | None = None
) -> bytes:
    """One probe's measurements as a record of version 0, which may lie about their number."""
    said = len(pings) if measurements is None else measurements
    moments = pa.array([ping.time_us for ping in pings], pa.timestamp("us"))
    span_s = (pings[-1].time_us - pings[0].time_us) / 1e6
    outer = pa.table(
        {
            "src_id": pa.array([probe], pa.int64()),
            "measurements": pa.array([_stream(as_table(pings))], pa.binary()),
            "n_measurements": pa.array([said], pa.int32()),
            "time_span_seconds": pa.array([span_s], pa.float64()),
            "first_timestamp": moments[:1],
            "last_timestamp": moments[-1:],
        }
    )
    return _stream(outer)


def _stream(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    written: bytes = sink.getvalue().to_pybytes()
    return written
