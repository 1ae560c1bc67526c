"""Writes the inherited layout, version 0, so that reading it can be tested."""

from collections.abc import Sequence

import pyarrow as pa

from tests.data.factories import as_table
from tests.data.reference import Ping


def encode_row_v0(pings: Sequence[Ping], probe: int) -> bytes:
    """One probe's measurements as a record of version 0."""
    moments = pa.array([ping.time_us for ping in pings], pa.timestamp("us"))
    span_s = (pings[-1].time_us - pings[0].time_us) / 1e6
    outer = pa.table(
        {
            "src_id": pa.array([probe], pa.int64()),
            "measurements": pa.array([_stream(as_table(pings))], pa.binary()),
            "n_measurements": pa.array([len(pings)], pa.int32()),
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
