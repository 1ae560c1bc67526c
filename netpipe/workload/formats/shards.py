"""The writer and the reader of ArrayRecord shards of rows."""

import hashlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path

import numpy as np
from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

from netpipe.errors import InputError
from netpipe.workload.formats.index import Shard

# One row per group, so that single rows can be read. Uncompressed, since decompressing a row takes
# longer than reading it, and the layout is already dense.
_WRITER_OPTIONS = "group_size:1,uncompressed"
# Random access gains nothing from read-ahead threads.
_READER_OPTIONS = "readahead_buffer_size:0,max_parallelism:0"


class ShardWriter:
    """Writes the rows of a split to files, round-robin; files without rows are deleted."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths
        with _system_errors():
            self._writers = [ArrayRecordWriter(str(path), _WRITER_OPTIONS) for path in paths]
        self._hash = hashlib.blake2b(digest_size=8)
        self._counts = [array("I") for _ in paths]
        self._next_shard = cycle(range(len(paths)))

    def write(self, record: bytes, measurements: int) -> None:
        """Write the record of a row with the given number of measurements."""
        shard = next(self._next_shard)
        with _system_errors():
            self._writers[shard].write(record)
        self._hash.update(record)
        self._counts[shard].append(measurements)

    def close(self) -> tuple[str, tuple[Shard, ...]]:
        """Close the files; return a hash of the rows, and the shards under their current names."""
        shards = []
        for path, counts, writer in zip(self._paths, self._counts, self._writers, strict=True):
            with _system_errors():
                writer.close()
            # The writer does not report a failed write; only the finished file shows it.
            if count_records(path) != len(counts):
                raise OSError(f"{path.name} was not written whole: is the disk full?")
            if counts:
                shards.append(Shard(path.name, tuple(counts)))
            else:
                path.unlink()
        return self._hash.hexdigest(), tuple(shards)


@contextmanager
def _system_errors() -> Iterator[None]:
    """Turn the writer's errors, which begin with the system's reason, into OSErrors."""
    try:
        yield
    except RuntimeError as error:
        raise OSError(str(error).partition(";")[0]) from error


class SameFiles:
    """The sizes and times of files, to detect when one is replaced."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._states = {path: _state(path) for path in paths}

    def require(self, path: Path) -> None:
        """Raise an InputError for a file that is gone or was replaced."""
        if (found := _state(path)) != self._states[path]:
            constraint = "be the file that was there when the data were opened"
            way_out = "Put it back, or start a new training"
            raise InputError(path, "file", constraint, "another" if found else "no file", way_out)


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


class ShardReader:
    """Random access to the records of shards, numbered consecutively; small when pickled."""

    def __init__(self, paths: Sequence[Path], records: Sequence[int]) -> None:
        self._paths = paths
        self._files = SameFiles(paths)
        self._ends = np.cumsum(records)
        self._readers: dict[Path, ArrayRecordReader] = {}

    def read(self, numbers: Sequence[int]) -> list[tuple[bytes, str]]:
        """Return records, each with its file and number; raise an InputError if one is damaged."""
        shards = np.searchsorted(self._ends, numbers, side="right")
        indices = np.asarray(numbers) - np.concatenate([[0], self._ends])[shards]
        # One at a time: for several, the reader starts threads, which take four times the CPU time.
        found = []
        for shard, index in zip(shards.tolist(), indices.tolist(), strict=True):
            path = self._paths[shard]
            where = f"{path}, record {index}"
            try:
                if path not in self._readers:
                    self._files.require(path)
                    self._readers[path] = ArrayRecordReader(str(path), _READER_OPTIONS)
                found.append((self._readers[path].read([index])[0], where))
            except (RuntimeError, IndexError) as error:
                raise InputError(where, "record", "be readable", error) from error
        return found

    def __getstate__(self) -> dict[str, object]:
        return {**vars(self), "_readers": {}}  # Each process opens its own readers.


def count_records(path: Path) -> int | None:
    """Return the number of records in a file, or None if it is not a complete ArrayRecord file."""
    reader = ArrayRecordReader(str(path), _READER_OPTIONS)
    if not reader.ok():
        return None  # Closing the reader would raise.
    count = int(reader.num_records())
    reader.close()
    return count


def require_records(path: Path) -> int:
    """Return the number of records in a file; raise an InputError if it is not complete."""
    if (count := count_records(path)) is None:
        found = f"{path.stat().st_size} bytes: truncated, or not ArrayRecord"
        raise InputError(path, "file", "be a whole ArrayRecord file", found)
    return count
