"""Rows of inherited ArrayRecord files, which have layout 0 and no index."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from netpipe.data.formats.index import INDEX_NAME
from netpipe.data.formats.layout import ARROW_STREAM_START, count_row_v0, decode_row_v0
from netpipe.data.formats.rows import ProbeRow
from netpipe.data.formats.shards import ShardReader, count_records
from netpipe.data.preparation.split import find_eval_files, split_rows
from netpipe.errors import InputError


class UnindexedSource:
    """The rows of one split of a folder, in the order of the file names.

    Every record is read once for its probe and number of measurements, since there is no index. The
    split is the one that `prepare` makes with the same seed.

    Raises:
        InputError: A file is damaged, a record is not of layout 0, or the file names contradict
            each other about the split.
    """

    def __init__(self, folder: Path, split: str, *, seed: int = 0) -> None:
        paths = find_array_records(folder)
        eval_files = find_eval_files(paths, [folder])
        records = []
        for path in paths:
            if (count := count_records(path)) is None:
                found = f"{path.stat().st_size} bytes: truncated, or not ArrayRecord"
                raise InputError(path, "file", "be a whole ArrayRecord file", found)
            records.append(count)
        self._shards = ShardReader(paths, records)
        counted = np.array([self._count(number) for number in range(sum(records))], np.int64)
        probes, files = counted.reshape(-1, 2)[:, 0], np.repeat(np.arange(len(paths)), records)
        in_split = split_rows(probes, files, paths, eval_files, seed=seed) == (split == "eval")
        self._records = np.flatnonzero(in_split)
        self.row_measurements: NDArray[np.int64] = counted[in_split, 1]
        self.row_group = None

    def read(self, rows: Sequence[int]) -> list[ProbeRow]:
        """Read these rows, in this order; raise an InputError for a damaged record."""
        numbers = self._records[list(rows)].tolist()
        return [decode_row_v0(*record) for record in self._shards.read(numbers)]

    def records(self) -> Iterator[tuple[bytes, str]]:
        """Yield the split's records, each with the file and number that errors name."""
        for number in self._records.tolist():
            yield from self._shards.read([number])

    def _count(self, number: int) -> tuple[int, int]:
        [(record, where)] = self._shards.read([number])
        if not record.startswith(ARROW_STREAM_START):
            # A prepared shard; without its index nothing says which probes are for evaluation.
            constraint = f"be of layout 0 without {INDEX_NAME}"
            raise InputError(where, "record", constraint, "another", "Prepare the data again")
        return count_row_v0(record, where)


def find_array_records(folder: Path) -> list[Path]:
    """List the ArrayRecord files directly in a folder, else those at any depth."""
    return sorted(folder.glob("*.arrayrecord")) or sorted(folder.rglob("*.arrayrecord"))
