"""Layout version 0 of a probe row, inherited: an Arrow stream of one row around another one."""

import numpy as np
import pyarrow as pa

from netpipe.data.addresses import AddressTable
from netpipe.data.measurements import MEASUREMENT
from netpipe.data.rows import ProbeRow, make_row
from netpipe.data.rtt import encode_rtt
from netpipe.errors import InputError

ARROW_STREAM_START = b"\xff\xff\xff\xff"


def decode_row_v0(record: bytes, where: object) -> ProbeRow:
    """Read a record of version 0.

    The outer row has `src_id` int64 and `measurements` binary, an Arrow stream of `event_time`
    timestamp(us), `src_addr` and `dst_addr` utf8, `ip_version` int8 and `rtt` float32.

    Raises:
        InputError: The record is not of that form.
    """
    try:
        outer = _one_batch(record)
        return _row(outer["src_id"][0].as_py(), _one_batch(outer["measurements"][0].as_py()))
    except (pa.ArrowException, OSError, KeyError, IndexError, TypeError, ValueError) as error:
        raise InputError(where, "record", "be a probe row of layout 0", error) from error


def _one_batch(stream: bytes) -> pa.RecordBatch:
    return pa.ipc.open_stream(stream).read_all().combine_chunks().to_batches()[0]


def _row(probe: int, columns: pa.RecordBatch) -> ProbeRow:
    addresses = AddressTable()
    history = np.empty(columns.num_rows, MEASUREMENT)
    history["probe"] = probe
    history["time_us"] = columns["event_time"].cast(pa.int64()).to_numpy()
    history["rtt_code"] = encode_rtt(columns["rtt"].to_numpy())
    version = columns["ip_version"].to_numpy()
    for name, field in (("src_addr", "source"), ("dst_addr", "destination")):
        history[field] = addresses.number_column(columns[name], version)
        if (history[field] < 0).any():
            raise ValueError(f"{name} that is no address of its ip_version")
    return make_row(history[np.argsort(history["time_us"], kind="stable")], addresses)
