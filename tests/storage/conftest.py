"""What the tests of storages share: none of them leaves a storage to the others."""

import pytest

from netpipe.storage import service


@pytest.fixture(autouse=True)
def _own_storages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start every test without storages of other tests, and with the same latencies each time."""
    monkeypatch.setenv("NETPIPE_STORAGES", "")
    service.share.cache_clear()
    service._DRAW.seed(0)
