"""The host on which the tests lint."""

from dataclasses import replace

import pytest

from netpipe.device.host import this_host
from netpipe.linting import linter


@pytest.fixture(autouse=True)
def eight_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge as on a host of eight cores, whatever this one has."""
    host = replace(this_host(), cores=8)
    monkeypatch.setattr(linter, "this_host", lambda: host)
