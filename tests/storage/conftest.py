"""Fixtures of the storage tests: no test leaves its storage to another."""

import pytest

from netpipe.storage import service


@pytest.fixture(autouse=True)
def _own_storages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start every test without the storages of other tests, and with the same random latencies."""
    monkeypatch.setenv("NETPIPE_STORAGES", "")
    service.share.cache_clear()
    service._DRAW.seed(0)
