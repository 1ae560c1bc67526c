"""The server with its data, once for all tests; without rclone they are skipped."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from netpipe.storage.profiles import parse_storage
from tests.storage_server.data import BUCKET, make_bucket
from tests.storage_server.programs import has_rclone
from tests.storage_server.server import StorageServer, storage_server


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that contains the folder of the only bucket."""
    if not has_rclone():
        pytest.skip("tox -e storage-server runs this test")
    folder = tmp_path_factory.mktemp("served")
    make_bucket(folder)
    return folder


@pytest.fixture(scope="session")
def bucket(served: Path) -> Path:
    """The folder of the bucket."""
    return served / BUCKET


@pytest.fixture(scope="session")
def server(served: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StorageServer]:
    """A server that answers after 20 ms."""
    storage = parse_storage("object-store,latency=20ms,tail=20ms")
    with storage_server(served, tmp_path_factory.mktemp("server"), storage) as running:
        yield running
