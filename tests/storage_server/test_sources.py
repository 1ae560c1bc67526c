"""Parquet and ArrayRecord by range requests. `tox -e storage-server` has the server."""

import pickle
from pathlib import Path

import pytest
from array_record.python.array_record_data_source import ArrayRecordDataSource
from array_record.python.array_record_module import ArrayRecordWriter

from tests.storage_server.data import ARRAY_RECORD
from tests.storage_server.mount import mounted_bucket
from tests.storage_server.pipelines import open_local
from tests.storage_server.server import StorageServer
from tests.storage_server.sources import (
    ARROW_IO_THREADS,
    RecordRanges,
    RowGroups,
    connect,
    drop_block_headers,
    index_records,
)


@pytest.mark.parametrize(("is_read_ahead", "requests"), [(True, 1), (False, 6)])
def test_a_row_group_takes_one_request_or_one_for_each_column(
    is_read_ahead: bool, requests: int, bucket: Path, server: StorageServer
) -> None:
    """A row group takes one request if columns are read together, otherwise six."""
    files = connect(server.endpoint, ARROW_IO_THREADS)
    remote = RowGroups(files, is_read_ahead=is_read_ahead)
    local = RowGroups(open_local(bucket))
    before = len(server.requests())
    assert remote[7].equals(local[7])
    made = server.requests(before)
    assert len(made) == requests
    assert 10_000 < sum(request.body_bytes for request in made) < 30_000


def test_opening_a_parquet_file_takes_three_requests(server: StorageServer) -> None:
    """Opening a file requests its size, its last 64 KiB and its footer, in every process."""
    files = connect(server.endpoint, ARROW_IO_THREADS)
    source = RowGroups(files)
    before = len(server.requests())
    again = pickle.loads(pickle.dumps(source))
    assert [request.method for request in server.requests(before)] == ["HEAD", "GET", "GET"]
    assert again[0].equals(source[0])


def test_a_record_takes_one_request(bucket: Path, server: StorageServer) -> None:
    """A record takes one request, and equals the one that ArrayRecord's own reader finds."""
    ranges = list(index_records(bucket / ARRAY_RECORD))
    source = RecordRanges(connect(server.endpoint, ARROW_IO_THREADS), ranges)
    local = ArrayRecordDataSource(str(bucket / ARRAY_RECORD))
    before = len(server.requests())
    assert [source[index] for index in range(50)] == [local[index] for index in range(50)]
    made = server.requests(before)
    assert len(made) == 50
    assert sum(each.body_bytes for each in made) == sum(each.size for each in ranges[:50])
    assert len(source) == len(local)
    assert pickle.loads(pickle.dumps(source))[3] == local[3]


def test_a_compressed_record_has_no_range(tmp_path: Path) -> None:
    """A compressed record has no range of bytes in the file."""
    writer = ArrayRecordWriter(str(tmp_path / "compressed"), "group_size:1")
    writer.write(b"the same again " * 1000)
    writer.close()
    with pytest.raises(ValueError, match="record 0 must be stored as it is"):
        list(index_records(tmp_path / "compressed"))


@pytest.mark.parametrize("offset", [0, 1, 65536 - 10, 65536, 65536 + 30, 3 * 65536 - 1])
def test_block_headers_are_dropped_wherever_a_range_begins(offset: int) -> None:
    """The 24 header bytes of every 65,536 bytes are dropped."""
    stored = bytes(0 if place % 65536 < 24 else 1 + place % 251 for place in range(4 * 65536))
    begin = next(place for place in range(offset, len(stored)) if stored[place])
    expected = stored[begin : begin + 140_000].replace(b"\0", b"")
    assert drop_block_headers(stored[begin : begin + 140_000], begin) == expected


def test_a_mounted_bucket_moves_far_more_than_a_record(
    bucket: Path, server: StorageServer, tmp_path: Path
) -> None:
    """ArrayRecord's own reader works on a mount, but a request reads beyond the record."""
    local = ArrayRecordDataSource(str(bucket / ARRAY_RECORD))
    with mounted_bucket(server.endpoint, tmp_path) as folder:
        source = ArrayRecordDataSource(str(folder / ARRAY_RECORD))
        before = len(server.requests())
        assert source[4000] == local[4000]
    moved = sum(request.body_bytes for request in server.requests(before))
    assert moved > 5 * len(local[4000])
