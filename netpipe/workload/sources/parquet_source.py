"""Rows made from parquet measurements without preparing them (`network_parquet`)."""

from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from netpipe.workload.formats.addresses import AddressTable
from netpipe.workload.formats.layout import encode_row
from netpipe.workload.formats.parquet import find_parquet, open_parquet, read_parquet
from netpipe.workload.formats.rows import ProbeRow, cut_rows, hash_rows, sort_by_probe, split_sorted
from netpipe.workload.formats.shards import SameFiles
from netpipe.workload.preparation.split import find_splits, split_rows

# A block can span two row groups.
_CACHED_GROUPS = 2


class ParquetSource:
    """The rows of one split of a folder, made from each row group of each file on its own.

    All files are read once to count their rows, since there is no index. `read` makes the rows of a
    row group again and caches the latest groups. The split is the one that `prepare` makes.
    """

    def __init__(self, folder: Path, split: str) -> None:
        files = find_parquet(folder)
        splits = find_splits(files, [folder])
        metadata = [open_parquet(file).metadata for file in files]
        self._files = files
        self._same_files = SameFiles(files)
        # The number of the file, and of the row group in that file.
        self._groups = [
            (number, group)
            for number, file in enumerate(metadata)
            for group in range(file.num_row_groups)
            if file.row_group(group).num_rows
        ]
        self._kept: dict[int, list[ProbeRow]] = {}
        counts = [
            (file, number, index, row.probe, len(row), crc32(encode_row(row)))
            for number, (file, _) in enumerate(self._groups)
            for index, row in enumerate(self._rows(number))
        ]
        counted = np.array(counts, np.int64)
        in_eval = split_rows(counted[:, 3], counted[:, 0], files, splits)
        in_split = in_eval == (split == "eval")
        self._row_indices = counted[in_split, 1:3]
        self.fingerprint = hash_rows(counted[in_split])
        self.row_measurements: NDArray[np.int64] = counted[in_split, 4]
        self.row_group: NDArray[np.int64] | None = self._row_indices[:, 0]

    def read(self, rows: Sequence[int]) -> list[ProbeRow]:
        """Read these rows, in this order."""
        return [self._rows(group)[index] for group, index in self._row_indices[list(rows)].tolist()]

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_kept": {}}

    def _rows(self, number: int) -> list[ProbeRow]:
        rows = self._kept.get(number)
        if rows is None:
            for old in list(self._kept)[: 1 - _CACHED_GROUPS]:
                self._kept.pop(old, None)  # another thread may have removed it
            file, group = self._groups[number]
            self._same_files.require(self._files[file])
            addresses = AddressTable()
            measurements = np.concatenate(list(read_parquet(self._files[file], addresses, [group])))
            rows = self._kept[number] = [
                row
                for history in split_sorted(sort_by_probe(measurements))
                for row in cut_rows(history, addresses)
            ]
        return rows
