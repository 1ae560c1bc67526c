"""What tests of the command share."""

import pytest
from click.testing import CliRunner

from netpipe.cli import main
from tests.command import Netpipe


@pytest.fixture
def netpipe(monkeypatch: pytest.MonkeyPatch) -> Netpipe:
    """Return a function that runs the command with JAX on the CPU."""
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    return lambda *words: CliRunner().invoke(main, [str(word) for word in words])
