"""Measurements out of parquet files, checked value by value, as numbers."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from netpipe.data.addresses import NO_ADDRESS, OTHER_FAMILY, AddressTable, is_translated
from netpipe.data.counter_rng import fold_key
from netpipe.data.measurements import MEASUREMENT, MeasurementArray
from netpipe.data.rtt import encode_rtt
from netpipe.data.schema import check_columns
from netpipe.errors import InputError

_BATCH_ROWS = 1 << 19


def find_parquet(sources: Sequence[Path]) -> list[Path]:
    """List parquet files: those named, and those in the folders named, at any depth.

    Raises:
        InputError: A path is not there, or there is no parquet file at all.
    """
    found: list[Path] = []
    for source in sources:
        if not source.exists():
            raise InputError(source, "source", "be a parquet file or a folder", "nothing there")
        inside = sorted(source.rglob("*.parquet")) if source.is_dir() else [source]
        if not inside:
            raise InputError(source, "folder", "hold *.parquet files", "none")
        found += inside
    if not found:
        raise InputError("sources", "list", "name at least one parquet file", "none")
    return found


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open a file and check its columns.

    Raises:
        InputError: It is no parquet file, is cut short, holds nothing, or lacks a column.
    """
    try:
        check_columns(path, pq.read_schema(path))
        file = pq.ParquetFile(path, read_dictionary=["src_addr", "dst_addr"])
    except (pa.ArrowException, OSError) as error:
        raise _not_parquet(path, error) from error
    if file.metadata.num_rows == 0:
        raise InputError(path, "file", "hold measurements", "0 rows")
    return file


def read_parquet(
    path: Path, addresses: AddressTable, row_group: int | None = None
) -> Iterator[MeasurementArray]:
    """Read a file piece by piece, in its order.

    Args:
        path: The file.
        addresses: Numbers the addresses; grows.
        row_group: Which of its row groups; None reads them all.

    Yields:
        Some hundred thousand measurements at a time.

    Raises:
        InputError: The file cannot be read, or a value in it is not what it must be.
    """
    file = open_parquet(path)
    groups = list(range(file.num_row_groups)) if row_group is None else [row_group]
    columns = check_columns(path, file.schema_arrow)
    first_row = sum(file.metadata.row_group(group).num_rows for group in range(groups[0]))
    try:
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=columns):
            yield _Batch(path, first_row, batch).measurements(addresses)
            first_row += batch.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _not_parquet(path, error) from error


def _not_parquet(path: Path, error: Exception) -> InputError:
    reason = str(error).splitlines()[0]
    return InputError(path, "file", "be a whole parquet file", reason)


@dataclass(frozen=True)
class _Batch:
    path: Path
    first_row: int
    columns: pa.RecordBatch

    def measurements(self, addresses: AddressTable) -> MeasurementArray:
        """Check every value and return the measurements."""
        for name in self.columns.schema.names:
            self._require(name, "not be null", np.asarray(self.columns[name].is_valid()))
        version = self._numbers("ip_version")
        self._require("ip_version", "be 4 or 6", (version == 4) | (version == 6))
        rtt_ms = self._numbers("rtt").astype(np.float64)
        self._require("rtt", "be finite (negative means failed)", np.isfinite(rtt_ms))
        out = np.empty(self.columns.num_rows, MEASUREMENT)
        out["time_us"] = self._time_us()
        out["rtt_code"] = encode_rtt(rtt_ms)
        out["source"] = self._addresses("src_addr", version, addresses)
        out["destination"] = self._addresses("dst_addr", version, addresses)
        out["probe"] = self._probes(out["source"], addresses)
        return out

    def _require(self, name: str, constraint: str, good: NDArray[np.bool_]) -> None:
        if good.all():
            return
        row = int(np.argmin(good))
        found = repr(self.columns[name][row].as_py())
        where = f"column {name}, row {self.first_row + row},"
        raise InputError(self.path, where, constraint, found)

    def _numbers(self, name: str) -> NDArray[np.generic]:
        return np.asarray(self.columns[name].to_numpy(zero_copy_only=False))

    def _time_us(self) -> NDArray[np.int64]:
        column = self.columns["event_time"]
        ticks = column.cast(pa.int64()).to_numpy()
        return np.asarray(ticks // 1000 if column.type.unit == "ns" else ticks)

    def _addresses(
        self, name: str, version: NDArray[np.generic], addresses: AddressTable
    ) -> NDArray[np.int32]:
        numbers = addresses.number_column(self.columns[name], version)
        self._require(name, "be an IP address, or empty", numbers != NO_ADDRESS)
        self._require(name, "be of the family in ip_version", numbers != OTHER_FAMILY)
        return numbers

    def _probes(self, source: NDArray[np.int32], addresses: AddressTable) -> NDArray[np.int64]:
        if "prb_id" in self.columns.schema.names:
            return self._numbers("prb_id").astype(np.int64)
        distinct, which = np.unique(source, return_inverse=True)
        octets = addresses.octets(distinct)
        if is_translated(octets).any():
            warnings.warn(
                f"{self.path}: without a column prb_id a probe is its src_addr, and private "
                "addresses merge unrelated probes",
                stacklevel=2,
            )
        # 16 bytes do not fit into a probe's number: their hash does.
        low, high = octets.view("<i8").T
        keys = fold_key(addresses.families(distinct).astype(np.int64), low, high)
        return keys[which].view(np.int64)
