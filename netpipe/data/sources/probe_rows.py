"""Random access to probe rows: the interface, prepared folders, and the table of formats."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from netpipe.data.formats.index import INDEX_NAME, load_index
from netpipe.data.formats.layout import decode_row
from netpipe.data.formats.rows import ProbeRow
from netpipe.data.formats.shards import ShardReader, count_records
from netpipe.data.sources.parquet_source import ParquetSource
from netpipe.data.sources.unindexed_source import UnindexedSource
from netpipe.errors import InputError


class RowSource(Protocol):
    """Rows by their number; small when pickled, since every Grain worker gets a copy."""

    @property
    def row_measurements(self) -> NDArray[np.int64]:
        """How many measurements each row has, int64 (rows,)."""

    @property
    def row_group(self) -> NDArray[np.int64] | None:
        """The group each row is read with, int64 (rows,): its first row costs the most.

        None if every row is read alone.
        """

    def read(self, rows: Sequence[int]) -> list[ProbeRow]:
        """Read these rows, in this order."""


class ArrayRecordSource:
    """The rows of one split of a folder that was prepared.

    Raises:
        InputError: The index or a shard is missing or damaged, or of a newer version.
    """

    def __init__(self, folder: Path, split: str) -> None:
        contents = load_index(folder).split(split)
        for shard in contents.shards:
            _check_shard(folder / shard.file, len(shard.row_measurements), split)
        self._shards = ShardReader(
            [folder / shard.file for shard in contents.shards],
            [len(shard.row_measurements) for shard in contents.shards],
        )
        self.row_measurements = contents.row_measurements
        self.row_group = None

    def read(self, rows: Sequence[int]) -> list[ProbeRow]:
        """Read these rows, in this order; raise an InputError for a damaged record."""
        return [decode_row(*record) for record in self._shards.read(rows)]


# The first format whose pattern matches a file of the folder opens it.
_FORMATS: Sequence[tuple[str, Callable[[Path, str], RowSource]]] = (
    (INDEX_NAME, ArrayRecordSource),
    ("*.arrayrecord", UnindexedSource),
    ("**/*.parquet", ParquetSource),
    ("**/*.arrayrecord", UnindexedSource),
)


def open_source(data: Path, split: str) -> RowSource:
    """Open the rows of a split, in a folder of one of the formats above.

    Raises:
        InputError: There is no such folder, no format recognises it, the split has no rows, or
            the data are damaged.
    """
    if not data.is_dir():
        raise InputError(data, "data", "be a folder", "a file" if data.exists() else "nothing")
    open_format = next((opener for glob, opener in _FORMATS if any(data.glob(glob))), None)
    if open_format is None:
        constraint = "hold ArrayRecord shards or parquet files"
        way_out = "Make one with `netpipe prepare` or `netpipe generate`"
        raise InputError(data, "folder", constraint, "none", way_out)
    source = open_format(data, split)
    if not len(source.row_measurements):
        way_out = "The names of the files and folders state the other split"
        raise InputError(data, f"split {split}", "have rows", "none", way_out)
    return source


def _check_shard(path: Path, records: int, split: str) -> None:
    way_out = "Prepare the data again"
    if not path.name.startswith(f"{split}-"):
        raise InputError(path, "shard", f"be of split {split}", "another name", way_out)
    constraint = f"hold the {records} records of the index"
    if not path.is_file():
        raise InputError(path, "shard", constraint, "no file")
    if (count := count_records(path)) != records:
        found = f"{count or 0} ({path.stat().st_size} bytes: truncated, or not ArrayRecord)"
        raise InputError(path, "shard", constraint, found, way_out)
