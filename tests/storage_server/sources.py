"""Random access to parquet and ArrayRecord in a bucket, by range requests of pyarrow."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from array_record.python.array_record_module import ArrayRecordReader
from pyarrow.fs import AwsStandardS3RetryStrategy, FileSystem, S3FileSystem, SubTreeFileSystem

from tests.storage_server.data import BUCKET, PARQUET
from tests.storage_server.server import KEY, SECRET

ARROW_IO_THREADS: Final = 8
"""Arrow's own number: as many parquet reads whose columns are read ahead are in flight."""
MIN_CONNECTIONS: Final = 25
"""pyarrow's own number: as many other reads of a bucket are in flight."""

# From the Riegeli format, which ArrayRecord uses: riegeli/records, "records file format".
_BLOCK_BYTES: Final = 1 << 16
_BLOCK_HEADER_BYTES: Final = 24


def connect(endpoint: str, io_threads: int) -> FileSystem:
    """Return the bucket of a server; reads use `io_threads` Arrow threads and connections.

    The threads belong to the process. There are at least `MIN_CONNECTIONS` connections.
    """
    pa.set_io_thread_count(io_threads)
    server = S3FileSystem(
        access_key=KEY, secret_key=SECRET, region="us-east-1", scheme="http",
        endpoint_override=endpoint, retry_strategy=AwsStandardS3RetryStrategy(max_attempts=10),
    )  # fmt: skip
    return SubTreeFileSystem(BUCKET, server)


class RowGroups:
    """The row groups of a parquet file.

    The file is opened and its metadata are read once in each process; threads share both.

    Attributes:
        is_read_ahead: Whether the columns of a row group are requested together where they lie side
            by side. Otherwise, pyarrow's default, each column is a request after the other.
    """

    def __init__(self, files: FileSystem, *, is_read_ahead: bool = True) -> None:
        self._files = files
        self.is_read_ahead = is_read_ahead
        self._file = files.open_input_file(PARQUET)
        self._metadata = pq.read_metadata(self._file)

    def __len__(self) -> int:
        return int(self._metadata.num_row_groups)

    def __getitem__(self, index: int) -> pa.Table:
        file = pq.ParquetFile(
            self._file, metadata=self._metadata, pre_buffer=self.is_read_ahead
        )  # fmt: skip
        return file.read_row_group(int(index), use_threads=False)

    def __getstate__(self) -> dict[str, object]:
        return {"files": self._files, "is_read_ahead": self.is_read_ahead}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(**state)  # type: ignore[misc]


class RecordRange(NamedTuple):
    """Where a record lies in a file: with the block headers in between, `size` bytes."""

    file: str
    offset: int
    size: int


class RecordRanges:
    """The records of ArrayRecord files, with the known place of each."""

    def __init__(self, files: FileSystem, ranges: Sequence[RecordRange]) -> None:
        self._files = files
        self._ranges = ranges
        self._opened = {
            name: files.open_input_file(name) for name in {each.file for each in ranges}
        }

    def __len__(self) -> int:
        return len(self._ranges)

    def __getitem__(self, index: int) -> bytes:
        file, offset, size = self._ranges[index]
        return drop_block_headers(self._opened[file].read_at(size, offset), offset)

    def __reduce__(self) -> tuple[type["RecordRanges"], tuple[FileSystem, Sequence[RecordRange]]]:
        return RecordRanges, (self._files, self._ranges)


def index_records(path: Path) -> Iterator[RecordRange]:
    """Find each record of a local ArrayRecord file, as its own reader reads it.

    Raises:
        ValueError: A record is compressed, so it is not stored in one piece.
    """
    reader = ArrayRecordReader(str(path), "readahead_buffer_size:0,max_parallelism:0")
    contents, end = drop_block_headers(path.read_bytes(), 0), 0
    for number, record in enumerate(reader.read_all()):
        begin = contents.find(record, end)
        if begin < 0:
            raise ValueError(f"{path}: record {number} must be stored as it is; found another form")
        end = begin + len(record)
        first, last = _in_file(begin), _in_file(end - 1)
        yield RecordRange(path.name, first, last + 1 - first)
    reader.close()


def drop_block_headers(stored: bytes, offset: int) -> bytes:
    """Return the bytes that lie at this offset of a Riegeli file without its block headers."""
    first_block = -offset % _BLOCK_BYTES
    blocks = range(first_block, len(stored), _BLOCK_BYTES)
    pieces = [stored[block + _BLOCK_HEADER_BYTES : block + _BLOCK_BYTES] for block in blocks]
    return b"".join([stored[:first_block], *pieces])


def _in_file(position: int) -> int:
    """Return where a byte lies in the file that is at this position without block headers."""
    blocks = position // (_BLOCK_BYTES - _BLOCK_HEADER_BYTES) + 1
    return position + blocks * _BLOCK_HEADER_BYTES
