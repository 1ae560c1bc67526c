"""Fixtures for all tests: a fake clock, the command, and checks for leftover processes."""

import ctypes
import gc
import signal
from collections.abc import Collection, Generator, Iterator
from contextlib import suppress
from multiprocessing import current_process
from typing import Final

import psutil
import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, settings

from netpipe.cli import main
from netpipe.jobs.processes import ProcessTree
from tests.command import Netpipe
from tests.fakes import FakeClock

# The same examples every time, without a deadline; each example overwrites the last one's files.
# `tox -e fuzz` uses the other profile.
_CHECKS = (HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large)
settings.register_profile("netpipe", deadline=None, derandomize=True, suppress_health_check=_CHECKS)
settings.register_profile(
    "long", deadline=None, max_examples=10_000, database=None, print_blob=True,
    suppress_health_check=_CHECKS,
)  # fmt: skip
settings.load_profile("netpipe")

_prctl = ctypes.CDLL(None).prctl  # some tests replace the loading of libraries
_SET_CHILD_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
_ENDING_S: Final = 30.0

# A job in the background or under nohup ignores these signals, and the processes that tests start
# would inherit that.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    """Run one worker more than there are cores, because tests wait a third of the time."""
    return (yield) + 1


def pytest_collection_finish() -> None:
    """Leave imported modules out of garbage collections, which then take less time."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _no_pull_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the pull request that runs these tests from the projects within them."""
    for name in ("GITHUB_BASE_REF", "GITHUB_WORKSPACE", "CI_MERGE_REQUEST_DIFF_BASE_SHA"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def netpipe(monkeypatch: pytest.MonkeyPatch) -> Netpipe:
    """Return a function that runs the command with JAX on the CPU."""
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    return lambda *words: CliRunner().invoke(main, [str(word) for word in words])


@pytest.fixture(autouse=True)
def _sessions_change_no_other_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Undo the changes that a session served in this process makes to it."""
    monkeypatch.setitem(current_process()._config, "tempdir", None)  # type: ignore[attr-defined]
    yield
    _prctl(_SET_CHILD_SUBREAPER, ctypes.c_ulong(0))


@pytest.fixture(autouse=True)
def _no_process_stays() -> Iterator[None]:
    """Fail if a test leaves a process behind, which would count as a worker in later tests."""
    before = ProcessTree().worker_pids
    yield
    _, alive = psutil.wait_procs(_started_since(before), timeout=_ENDING_S)
    left = [process.cmdline() for process in alive]
    for process in alive:
        process.kill()
    assert not left


def _started_since(before: Collection[int]) -> list[psutil.Process]:
    """Return the descendants that were started after the `before` ones."""
    found = []
    for pid in set(ProcessTree().worker_pids).difference(before):
        with suppress(psutil.NoSuchProcess):
            found.append(psutil.Process(pid))
    return found


@pytest.fixture
def clock() -> FakeClock:
    """A clock at 0."""
    return FakeClock()
