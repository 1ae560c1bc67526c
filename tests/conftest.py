"""What all tests share: a clock that they control, and the command."""

from multiprocessing import current_process

import pytest
from click.testing import CliRunner

from netpipe.cli import main
from tests.command import Netpipe
from tests.fakes import FakeClock


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


@pytest.fixture(autouse=True)
def _sockets_stay_where_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a session that is served in this process not change it for the tests that follow."""
    monkeypatch.setitem(current_process()._config, "tempdir", None)  # type: ignore[attr-defined]


@pytest.fixture
def clock() -> FakeClock:
    """A clock at 0."""
    return FakeClock()
