"""ArrayRecord shards of rows: how they are written, and how they are opened."""

from pathlib import Path

from array_record.python.array_record_module import ArrayRecordReader, ArrayRecordWriter

from netpipe.data.index import Shard

# One row a group, so that a row is read alone; raw, since inflating a row costs more time than
# reading it, and the layout is dense already.
_WRITER_OPTIONS = "group_size:1,uncompressed"
READER_OPTIONS = "readahead_buffer_size:0,max_parallelism:0"
"""Random access: no reading ahead, no threads."""


class ShardWriter:
    """Spreads the rows of a split over its shards in turn.

    Args:
        folder: Where they go.
        split: The first part of their names.
        shards: How many there are; fewer when there are fewer rows.
    """

    def __init__(self, folder: Path, split: str, shards: int) -> None:
        self._folder = folder
        self._split = split
        self._paths = [folder / f".{split}-{number}" for number in range(shards)]
        self._writers = [ArrayRecordWriter(str(path), _WRITER_OPTIONS) for path in self._paths]
        self._counts: list[list[int]] = [[] for _ in self._paths]
        self._rows = 0

    def write(self, record: bytes, measurements: int) -> None:
        """Add a row of so many measurements."""
        shard = self._rows % len(self._paths)
        self._writers[shard].write(record)
        self._counts[shard].append(measurements)
        self._rows += 1

    def close(self) -> tuple[Shard, ...]:
        """Finish the files and give them their names.

        Raises:
            OSError: A file could not be written.
        """
        for writer, path, counts in zip(self._writers, self._paths, self._counts, strict=True):
            writer.close()
            # A failed write is silent in the writer; only the finished file tells.
            if count_records(path) != len(counts):
                raise OSError(f"{path.name} was not written whole: is the disk full?")
        filled = sum(1 for counts in self._counts if counts)
        shards = []
        for number, (path, counts) in enumerate(zip(self._paths, self._counts, strict=True)):
            if not counts:
                path.unlink()
                continue
            name = f"{self._split}-{number:05d}-of-{filled:05d}.arrayrecord"
            path.replace(self._folder / name)
            shards.append(Shard(name, tuple(counts)))
        return tuple(shards)


def count_records(path: Path) -> int:
    """Return how many records a file has, 0 for a file that is no whole ArrayRecord file."""
    reader = ArrayRecordReader(str(path), READER_OPTIONS)
    if not reader.ok():
        return 0  # closing it would raise
    count = int(reader.num_records())
    reader.close()
    return count
