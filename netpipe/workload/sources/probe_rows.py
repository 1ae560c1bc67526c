"""Random access to probe rows: the interface, ArrayRecord files, and the table of formats."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from netpipe.errors import InputError
from netpipe.workload.formats.index import INDEX_NAME, load_index
from netpipe.workload.formats.layout import ARROW_STREAM_START, count_row_v0, decode_row
from netpipe.workload.formats.parquet import distinct_files
from netpipe.workload.formats.rows import ProbeRow, hash_rows
from netpipe.workload.formats.shards import ShardReader, count_records, require_records
from netpipe.workload.preparation.split import find_splits, split_rows
from netpipe.workload.sources.parquet_source import ParquetSource


class RowSource(Protocol):
    """Rows by their number; small when pickled, since every Grain worker gets a copy.

    Attributes:
        row_measurements: The number of measurements of each row, int64 (rows,).
        row_group: The group each row is read with, int64 (rows,), or None if rows are read alone.
        fingerprint: A hash that identifies the rows.
    """

    row_measurements: NDArray[np.int64]
    row_group: NDArray[np.int64] | None
    fingerprint: str

    def read(self, rows: Sequence[int]) -> list[ProbeRow]:
        """Read these rows, in this order."""


class ArrayRecordSource:
    """The rows of one split of a prepared folder."""

    def __init__(self, folder: Path, split: str) -> None:
        index = load_index(folder)
        contents = index.split(split)
        for shard in contents.shards:
            _check_shard(folder / shard.file, len(shard.row_measurements), split)
        self._shards = ShardReader(
            [folder / shard.file for shard in contents.shards],
            [len(shard.row_measurements) for shard in contents.shards],
        )
        self.row_measurements = contents.row_measurements
        self.row_group: NDArray[np.int64] | None = None
        # The index's fingerprint is of both splits. A shard's name ends with the number of shards,
        # which determines the order of the rows, and with a hash of this split.
        names = (Path(shard.file).stem.partition("-of-")[2] for shard in contents.shards[:1])
        self.fingerprint = index.fingerprint + "".join(names)

    def read(self, rows: Sequence[int]) -> list[ProbeRow]:
        """Read these rows, in this order."""
        counts = self.row_measurements[list(rows)].tolist()
        found = []
        for (record, where), count in zip(self._shards.read(rows), counts, strict=True):
            row = decode_row(record, where)
            if len(row) != count:
                constraint = f"hold the {count} measurements of the index"
                raise InputError(where, "record", constraint, len(row), "Prepare the data again")
            found.append(row)
        return found


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


class UnindexedSource:
    """The rows of one split of a folder, in the order of the file names.

    Every record is read once for its probe and number of measurements, since there is no index. The
    split is the one that `prepare` makes by default.
    """

    def __init__(self, folder: Path, split: str) -> None:
        paths = find_array_records(folder)
        splits = find_splits(paths, [folder])
        records = list(map(require_records, paths))
        self._shards = ShardReader(paths, records)
        counts = []
        for number in range(sum(records)):
            [(record, where)] = self._shards.read([number])
            if not record.startswith(ARROW_STREAM_START):
                # A prepared shard; only its index determines which probes are for evaluation.
                constraint = f"be of layout 0 without {INDEX_NAME}"
                raise InputError(where, "record", constraint, "another", "Prepare the data again")
            counts.append((*count_row_v0(record, where), crc32(record)))
        counted = np.array(counts, np.int64).reshape(-1, 3)
        probes, files = counted[:, 0], np.repeat(np.arange(len(paths)), records)
        in_split = split_rows(probes, files, paths, splits) == (split == "eval")
        self._records = np.flatnonzero(in_split)
        self.row_measurements: NDArray[np.int64] = counted[in_split, 1]
        self.row_group: NDArray[np.int64] | None = None
        self.fingerprint = hash_rows(counted[in_split])

    def read(self, rows: Sequence[int]) -> list[ProbeRow]:
        """Read these rows, in this order."""
        numbers = self._records[list(rows)].tolist()
        return [decode_row(*record) for record in self._shards.read(numbers)]


def find_array_records(folder: Path) -> list[Path]:
    """Return the ArrayRecord files directly in a folder, or else those at any depth, each once."""
    paths = sorted(folder.glob("*.arrayrecord")) or sorted(folder.rglob("*.arrayrecord"))
    return distinct_files(paths)


# The first entry whose pattern matches a file in the folder opens the folder.
_FORMATS: Sequence[tuple[str, str, Callable[[Path, str], RowSource]]] = (
    (INDEX_NAME, "arrayrecord", ArrayRecordSource),
    ("*.arrayrecord", "arrayrecord", UnindexedSource),
    ("**/*.parquet", "parquet", ParquetSource),
    ("**/*.arrayrecord", "arrayrecord", UnindexedSource),
)


def find_format(data: Path) -> str:
    """Return the format of a folder, "arrayrecord" or "parquet", or "" if it has neither."""
    return next((name for pattern, name, _ in _FORMATS if any(data.glob(pattern))), "")


def open_source(data: Path, split: str) -> RowSource:
    """Open the rows of a split; raise an InputError if the folder has none, or is damaged."""
    if not data.is_dir():
        raise InputError(
            data, "data", "be a local folder", "a file" if data.exists() else "nothing"
        )
    open_format = next((opener for glob, _, opener in _FORMATS if any(data.glob(glob))), None)
    if open_format is None:
        constraint = "hold ArrayRecord shards or parquet files"
        way_out = "Make one with `netpipe prepare` or `netpipe generate`"
        raise InputError(data, "folder", constraint, "none", way_out)
    source = open_format(data, split)
    if not len(source.row_measurements):
        way_out = "The names of the files and folders state the other split"
        raise InputError(data, f"split {split}", "have rows", "none", way_out)
    return source
