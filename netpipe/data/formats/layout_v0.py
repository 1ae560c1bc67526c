"""Layout version 0 of a probe row, inherited: an Arrow stream with another one inside."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from netpipe.data.formats.addresses import AddressTable
from netpipe.data.formats.columns import MeasurementColumns, check_columns
from netpipe.data.formats.measurements import MeasurementArray
from netpipe.data.formats.rows import ProbeRow, make_row
from netpipe.errors import InputError

ARROW_STREAM_START = b"\xff\xff\xff\xff"


def decode_row_v0(record: bytes, where: object) -> ProbeRow:
    """Read a record of version 0; see `decode_history_v0`."""
    return make_row(*decode_history_v0(record, where))


def decode_history_v0(record: bytes, where: object) -> tuple[MeasurementArray, AddressTable]:
    """Read the measurements of a record of version 0, in time order, and their addresses.

    The outer row has `src_id` int64, `n_measurements` int32 and `measurements` binary, an Arrow
    stream of `event_time` timestamp(us), `src_addr` and `dst_addr` utf8, `ip_version` int8 and
    `rtt` float32.

    Raises:
        InputError: The record is not of that form, or a value in it is not what it must be.
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
        history = MeasurementColumns(where, 0, columns).measurements(addresses)
        return history[np.argsort(history["time_us"], kind="stable")], addresses


def count_row_v0(record: bytes, where: object) -> tuple[int, int]:
    """Return the probe of a record of version 0, and its stated number of measurements.

    Raises:
        InputError: The record is not of that form, or states no measurements.
    """
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
