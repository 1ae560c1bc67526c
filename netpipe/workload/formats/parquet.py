"""Measurements in parquet files: the columns, the checks of their values, and the reader."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from stat import S_ISREG, filemode

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from netpipe.errors import InputError
from netpipe.files.text_files import shorten
from netpipe.workload.formats.addresses import NO_ADDRESS, OTHER_FAMILY, AddressTable, is_translated
from netpipe.workload.formats.dropped import Dropped
from netpipe.workload.formats.places import Place
from netpipe.workload.formats.rows import MEASUREMENT, MeasurementArray, number_values
from netpipe.workload.formats.rtt import encode_rtt
from netpipe.workload.sampling.counter_rng import fold_key

_BATCH_ROWS = 1 << 19
# A column is read in pieces of this size, not one row group at a time.
_BUFFER_BYTES = 1 << 22
_MAX_DICTIONARY_BYTES = 1 << 22
_INDEX_BYTES = 4


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


# The types accepted for each column: as text to follow "must be", and as a predicate.
_COLUMNS: Mapping[str, tuple[str, Callable[[pa.DataType], bool]]] = {
    "event_time": (
        "a timestamp in us or ns (UTC)",
        lambda kind: pa.types.is_timestamp(kind) and kind.unit in ("us", "ns"),
    ),
    "src_addr": ("a string", _is_text),
    "dst_addr": ("a string", _is_text),
    "ip_version": ("an integer", pa.types.is_integer),
    "rtt": ("a floating-point number (milliseconds)", pa.types.is_floating),
    "prb_id": ("an integer", pa.types.is_integer),
}
_OPTIONAL = "prb_id"


def check_columns(where: object, schema: pa.Schema) -> list[str]:
    """Return the names of the columns to read; raise an InputError if one is missing or wrong."""
    for name, (wanted, accepts) in _COLUMNS.items():
        kinds = [field.type for field in schema if field.name == name]
        if len(kinds) > 1 or not (kinds or name == _OPTIONAL):
            found = f"{len(kinds)} times" if kinds else ", ".join(schema.names) or "no column"
            raise InputError(where, f"column {name}", "exist once", found)
        for kind in kinds:
            if not accepts(kind):
                raise InputError(where, f"column {name}", f"be {wanted}", kind)
    return [name for name in _COLUMNS if name in schema.names]


class MergedProbesWarning(UserWarning):
    """Measurements without `prb_id` come from private addresses, which many probes share."""


# The text names no file, so that Python shows the warning once for all files.
_MERGED_PROBES = (
    "without a column prb_id a probe is its src_addr, and private addresses merge unrelated probes"
)


class InvalidValuesError(InputError):
    """A column has null or out-of-range values; `good` marks the valid rows."""

    column: str
    good: NDArray[np.bool_]


@dataclass(frozen=True)
class MeasurementColumns:
    """Rows of measurements in a file, starting at `first_row`.

    Errors name `where`. `kept` holds the indices of the rows that remain after some were dropped,
    int64 (rows,); None if all remain.
    """

    where: object
    first_row: int
    columns: pa.RecordBatch
    kept: NDArray[np.int64] | None = None

    def measurements(
        self, addresses: AddressTable, dropped: list[Dropped] | None = None
    ) -> MeasurementArray:
        """Check every value and return the measurements; add their addresses to `addresses`.

        An invalid value raises an InputError. If `dropped` is given, the row is dropped instead,
        and counted there under the first reason found.
        """
        rows = self
        while True:
            try:
                return rows._measurements(addresses)
            except InvalidValuesError as error:
                if dropped is None:
                    raise
                good = error.good
                count, row = int(np.count_nonzero(~good)), rows._row_in_file(good)
                where, found = str(self.where), str(error.found)
                dropped.append(Dropped(error.column, error.constraint, count, where, row, found))
                kept = np.flatnonzero(good) if rows.kept is None else rows.kept[good]
                rows = replace(rows, columns=rows.columns.filter(pa.array(good)), kept=kept)

    def _measurements(self, addresses: AddressTable) -> MeasurementArray:
        for name in self.columns.schema.names:
            self._require(name, "not be null", np.asarray(self.columns[name].is_valid()))
        version = self._numbers("ip_version")
        self._require("ip_version", "be 4 or 6", (version == 4) | (version == 6))
        rtt_ms = self._numbers("rtt").astype(np.float64)
        self._require("rtt", "be finite (negative means failed)", np.isfinite(rtt_ms))
        out = np.empty(self.columns.num_rows, MEASUREMENT)
        time = self.columns["event_time"]
        out["time_us"] = time.cast(pa.int64()).to_numpy() // (1000 if time.type.unit == "ns" else 1)
        out["rtt_code"] = encode_rtt(rtt_ms)
        out["source"] = self._addresses("src_addr", version, addresses)
        out["destination"] = self._addresses("dst_addr", version, addresses)
        out["probe"] = self._probes(out["source"], addresses)
        return out

    def _require(self, name: str, constraint: str, good: NDArray[np.bool_]) -> None:
        if good.all():
            return
        found = shorten(repr(self.columns[name][int(np.argmin(good))].as_py()))
        field = f"column {name}, row {self._row_in_file(good)},"
        error = InvalidValuesError(self.where, field, constraint, found)
        error.column, error.good = name, good
        raise error

    def _row_in_file(self, good: NDArray[np.bool_]) -> int:
        """Return the number in the file of the first row that is not `good`."""
        row = int(np.argmin(good))
        return self.first_row + (row if self.kept is None else int(self.kept[row]))

    def _numbers(self, name: str) -> NDArray[np.generic]:
        return np.asarray(self.columns[name].to_numpy(zero_copy_only=False))

    def _addresses(
        self, name: str, version: NDArray[np.generic], addresses: AddressTable
    ) -> NDArray[np.int32]:
        numbers = addresses.number_column(self.columns[name], version)
        self._require(name, "be an IP address, or empty", numbers != NO_ADDRESS)
        self._require(name, "be of the family in ip_version", numbers != OTHER_FAMILY)
        return numbers

    def _probes(self, source: NDArray[np.int32], addresses: AddressTable) -> NDArray[np.int64]:
        if _OPTIONAL in self.columns.schema.names:
            return self._numbers(_OPTIONAL).astype(np.int64)
        distinct, which = number_values(source, len(addresses))
        octets = addresses.octets(distinct)
        if is_translated(octets).any():
            warnings.warn(_MERGED_PROBES, MergedProbesWarning, stacklevel=2)
        # An address of 16 bytes does not fit in a probe number of 8 bytes, so its hash is used.
        low, high = octets.view("<i8").T
        keys = fold_key(addresses.families(distinct).astype(np.int64), low, high)
        return keys[which].view(np.int64)


def find_parquet(sources: Sequence[Path]) -> list[Path]:
    """Return the parquet files among the sources and at any depth in folders, each once.

    Raises:
        InputError: A source does not exist, or there is no parquet file.
    """
    found: list[Path] = []
    for source in sources:
        if not source.exists():
            raise InputError(source, "source", "be a parquet file or a folder", "nothing there")
        # The name of a folder can end in .parquet too.
        files = sorted(path for path in source.rglob("*.parquet") if not path.is_dir())
        inside = files if source.is_dir() else [source]
        if not inside:
            raise InputError(source, "folder", "hold *.parquet files", "none")
        found += inside
    if not found:
        raise InputError("sources", "list", "name at least one parquet file", "none")
    return distinct_files(found)


def distinct_files(paths: Sequence[Path]) -> list[Path]:
    """Return the first path of each file; raise an InputError if one is not a regular file."""
    found: dict[tuple[int, int], Path] = {}
    for path in paths:
        try:
            status = path.stat()
        except OSError as error:
            raise InputError(path, "file", "be readable", error.strerror) from error
        if not S_ISREG(status.st_mode):
            # Opening a pipe would wait for a writer.
            raise InputError(path, "file", "be a regular file", filemode(status.st_mode))
        found.setdefault((status.st_dev, status.st_ino), path)
    return list(found.values())


def open_parquet(path: Path | Place) -> pq.ParquetFile:
    """Open a parquet file; raise an InputError if it is damaged or empty, or lacks a column."""
    place = path if isinstance(path, Place) else Place.local(path)
    try:
        metadata = pq.read_metadata(place.open_input())
        check_columns(path, metadata.schema.to_arrow_schema())
        repeated = [name for name in ("src_addr", "dst_addr") if _is_repetitive(metadata, name)]
        file = pq.ParquetFile(
            place.open_input(), metadata=metadata, read_dictionary=repeated,
            buffer_size=_BUFFER_BYTES,
        )  # fmt: skip
    except (pa.ArrowException, OSError) as error:
        raise _not_parquet(path, error) from error
    if file.metadata.num_rows == 0:
        raise InputError(path, "file", "hold measurements", "0 rows")
    return file


def _is_repetitive(metadata: pq.FileMetaData, name: str) -> bool:
    """Return whether a column's dictionaries are small enough to be repeated in every batch."""
    column = metadata.schema.names.index(name)
    groups = map(metadata.row_group, range(metadata.num_row_groups))
    return all(
        chunk.total_uncompressed_size - _INDEX_BYTES * chunk.num_values < _MAX_DICTIONARY_BYTES
        for chunk in (group.column(column) for group in groups)
    )


def read_parquet(
    path: Path | Place,
    addresses: AddressTable,
    row_groups: Sequence[int] = (),
    *,
    dropped: list[Dropped] | None = None,
) -> Iterator[MeasurementArray]:
    """Yield the measurements of a file, or of consecutive row groups, about 500,000 at a time.

    See `MeasurementColumns.measurements` for `addresses` and `dropped`.
    """
    file = open_parquet(path)
    groups = list(row_groups or range(file.num_row_groups))
    columns = check_columns(path, file.schema_arrow)
    first_row = sum(file.metadata.row_group(group).num_rows for group in range(groups[0]))
    try:
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=columns):
            yield MeasurementColumns(path, first_row, batch).measurements(addresses, dropped)
            first_row += batch.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _not_parquet(path, error) from error


def _not_parquet(path: Path | Place, error: Exception) -> InputError:
    reason = shorten(str(error).splitlines()[0], 200)
    return InputError(path, "file", "be a whole parquet file", reason)
