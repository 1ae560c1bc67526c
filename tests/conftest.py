"""What all tests share: a clock that they control, and the command."""

import signal
from multiprocessing import current_process

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, settings

from netpipe.cli import main
from tests.command import Netpipe
from tests.fakes import FakeClock

# The same examples every time, however slow the machine; an example overwrites the files of the one
# before. `tox -e fuzz` uses the other profile.
_CHECKS = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large)
settings.register_profile("netpipe", deadline=None, derandomize=True, suppress_health_check=_CHECKS)
settings.register_profile(
    "long", deadline=None, max_examples=10_000, database=None, print_blob=True,
    suppress_health_check=_CHECKS,
)  # fmt: skip
settings.load_profile("netpipe")

# A job in the background, or under nohup, ignores these signals, and so would the processes that
# tests start and then end with them.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


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
