"""How measurements are read from parquet files."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from netpipe.data.formats.addresses import AddressTable
from netpipe.data.formats.columns import MeasurementColumns, check_columns
from netpipe.data.formats.measurements import MeasurementArray
from netpipe.errors import InputError

_BATCH_ROWS = 1 << 19


def find_parquet(sources: Sequence[Path]) -> list[Path]:
    """List the parquet files among the sources, and those in their folders at any depth.

    Raises:
        InputError: A source does not exist, or there is no parquet file.
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
        InputError: It is not a complete parquet file, is empty, or lacks a column.
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
    """Yield the measurements of a file, or of one row group, some hundred thousand at a time.

    Their addresses are added to `addresses`.

    Raises:
        InputError: The file cannot be read, or a value in it is invalid.
    """
    file = open_parquet(path)
    groups = list(range(file.num_row_groups)) if row_group is None else [row_group]
    columns = check_columns(path, file.schema_arrow)
    first_row = sum(file.metadata.row_group(group).num_rows for group in range(groups[0]))
    try:
        for batch in file.iter_batches(_BATCH_ROWS, row_groups=groups, columns=columns):
            yield MeasurementColumns(path, first_row, batch).measurements(addresses)
            first_row += batch.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise _not_parquet(path, error) from error


def _not_parquet(path: Path, error: Exception) -> InputError:
    reason = str(error).splitlines()[0]
    return InputError(path, "file", "be a whole parquet file", reason)
