"""The performance tests keep compiled steps in pytest's cache."""

import os

import pytest

from perf_tests import conftest

VARIABLE = "JAX_COMPILATION_CACHE_DIR"


@pytest.fixture(autouse=True)
def _without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a test set the variable, and restore it."""
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.delenv(VARIABLE)


def test_sessions_share_a_folder(pytester: pytest.Pytester) -> None:
    """Sessions find the cache of compiled code in a folder of pytest's cache."""
    conftest.pytest_configure(pytester.parseconfigure())
    assert os.environ[VARIABLE] == str(pytester.path / ".pytest_cache/d/xla")
    assert (pytester.path / ".pytest_cache/d/xla").is_dir()


def test_a_folder_that_the_user_names(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's own folder is kept."""
    monkeypatch.setenv(VARIABLE, "/tmp/own")
    conftest.pytest_configure(pytester.parseconfigure())
    assert os.environ[VARIABLE] == "/tmp/own"


def test_no_cache(pytester: pytest.Pytester) -> None:
    """Without pytest's cache, each session compiles for itself."""
    conftest.pytest_configure(pytester.parseconfigure("-p", "no:cacheprovider"))
    assert VARIABLE not in os.environ
