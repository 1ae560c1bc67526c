"""What tests of the command share."""

import pytest
from click.testing import CliRunner

from netpipe.cli import main
from tests.command import Netpipe


@pytest.fixture(autouse=True)
def _no_pull_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a pull request tests this project, the projects within its tests are not it."""
    for name in ("GITHUB_BASE_REF", "CI_MERGE_REQUEST_DIFF_BASE_SHA"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def netpipe(monkeypatch: pytest.MonkeyPatch) -> Netpipe:
    """Return a function that runs the command with JAX on the CPU."""
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    return lambda *words: CliRunner().invoke(main, [str(word) for word in words])
