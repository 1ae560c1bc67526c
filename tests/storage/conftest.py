"""Fixtures of the storage tests: no test leaves its storage to another."""

import pytest

from netpipe.storage import emulated_storage


@pytest.fixture(autouse=True)
def _own_storages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start every test without the storages of other tests, and with the same random latencies."""
    monkeypatch.setenv("NETPIPE_STORAGES", "")
    emulated_storage.share.cache_clear()
    emulated_storage._DRAW.seed(0)
