"""Measurements in parquet files: the columns, the checks of their values, and the reader."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG, filemode
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from netpipe.errors import InputError, first_line
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


def check_measurements(
    where: object,
    columns: pa.RecordBatch,
    addresses: AddressTable,
    first_row: int = 0,
    dropped: list[Dropped] | None = None,
) -> MeasurementArray:
    """Check every value and return the measurements; add their addresses to `addresses`.

    `where` names the file in errors, and its rows are numbered from `first_row`. An invalid value
    raises an InputError. If `dropped` is given, the row is dropped instead, and counted there under
    the first reason found.
    """
    numbers = np.arange(first_row, first_row + columns.num_rows)
    rows = _Rows(where, columns, dropped, {"row": numbers})
    for name in columns.schema.names:
        rows.require(name, "not be null", np.asarray(rows.columns[name].is_valid()))
    version = rows.numbers("ip_version")
    rows.require("ip_version", "be 4 or 6", (version == 4) | (version == 6))
    finite = np.isfinite(rows.numbers("rtt"))
    rows.require("rtt", "be finite (negative means failed)", finite)
    for name in ("src_addr", "dst_addr"):
        version = rows.numbers("ip_version")
        rows.found[name] = addresses.number_column(rows.columns[name], version)
        rows.require(name, "be an IP address, or empty", rows.found[name] != NO_ADDRESS)
        rows.require(name, "be of the family in ip_version", rows.found[name] != OTHER_FAMILY)
    out = np.empty(rows.columns.num_rows, MEASUREMENT)
    time = rows.columns["event_time"]
    out["time_us"] = time.cast(pa.int64()).to_numpy() // (1000 if time.type.unit == "ns" else 1)
    out["rtt_code"] = encode_rtt(rows.numbers("rtt"))
    out["source"], out["destination"] = rows.found["src_addr"], rows.found["dst_addr"]
    if _OPTIONAL in columns.schema.names:
        out["probe"] = rows.numbers(_OPTIONAL)
    else:
        out["probe"] = _hash_sources(rows.found["src_addr"], addresses)
    return out


@dataclass
class _Rows:
    """The rows of a record batch that are not dropped, and the numbers `found` for them."""

    where: object
    columns: pa.RecordBatch
    dropped: list[Dropped] | None
    found: dict[str, NDArray[Any]]

    def numbers(self, name: str) -> NDArray[Any]:
        """Return a column of numbers without nulls."""
        return np.asarray(self.columns[name].to_numpy(zero_copy_only=False))

    def require(self, name: str, constraint: str, good: NDArray[np.bool_]) -> None:
        """Drop the rows of a column that are not good, or raise an InputError for the first one."""
        if good.all():
            return
        first = int(np.argmin(good))
        row, value = int(self.found["row"][first]), self.columns[name][first].as_py()
        shown = shorten(repr(value))
        if self.dropped is None:
            raise InputError(self.where, f"column {name}, row {row},", constraint, shown)
        count = int(np.count_nonzero(~good))
        self.dropped.append(Dropped(name, constraint, count, str(self.where), row, shown))
        self.columns = self.columns.filter(pa.array(good))
        self.found = {key: numbers[good] for key, numbers in self.found.items()}


def _hash_sources(source: NDArray[np.int32], addresses: AddressTable) -> NDArray[np.int64]:
    """Return a probe number of 8 bytes for each source: a hash of the 16 bytes of its address."""
    distinct, which = number_values(source, len(addresses))
    sources = addresses.take(distinct)
    if is_translated(sources["octets"]).any():
        warnings.warn(_MERGED_PROBES, MergedProbesWarning, stacklevel=2)
    low, high = sources["octets"].view("<i8").T
    keys = fold_key(sources["family"].astype(np.int64), low, high)
    return keys[which].view(np.int64)


def find_parquet(source: Path) -> list[Path]:
    """Return a parquet file, or the parquet files at any depth in a folder, each once.

    Raises:
        InputError: The source does not exist, or the folder has no parquet file.
    """
    if not source.exists():
        raise InputError(source, "source", "be a parquet file or a folder", "nothing there")
    if not source.is_dir():
        return distinct_files([source])
    # The name of a folder can end in .parquet too.
    found = sorted(path for path in source.rglob("*.parquet") if not path.is_dir())
    if not found:
        raise InputError(source, "folder", "hold *.parquet files", "none")
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

    See `check_measurements` for `addresses` and `dropped`.
    """
    file = open_parquet(path)
    groups = list(row_groups or range(file.num_row_groups))
    columns = check_columns(path, file.schema_arrow)
    counts = [file.metadata.row_group(group).num_rows for group in range(groups[-1] + 1)]
    first_row, end = sum(counts[: groups[0]]), sum(counts)
    try:
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=columns):
            yield check_measurements(path, batch, addresses, first_row, dropped)
            first_row += batch.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _not_parquet(path, error) from error
    # Arrow ends early, without an error, if some headers of pages are damaged.
    if first_row != end:
        raise InputError(path, "file", "be a whole parquet file", f"no row {first_row} of {end}")


def _not_parquet(path: Path | Place, error: Exception) -> InputError:
    reason = shorten(first_line(error), 200)
    return InputError(path, "file", "be a whole parquet file", reason)
