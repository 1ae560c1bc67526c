"""Preparation for all performance tests."""

import os
from contextlib import suppress
from pathlib import Path

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Let sessions and later runs share compiled steps; compiling one takes seconds."""
    if config.pluginmanager.has_plugin("cacheprovider"):
        with suppress(OSError):  # It cannot be written.
            folder = config.cache.mkdir("xla")
            if os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder)) == str(folder):
                # By default, JAX keeps only what takes a second to compile.
                os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


@pytest.fixture(scope="session", autouse=True)
def _data_is_there(data_directory: Path) -> None:
    """Create the data before any session is timed."""
    assert data_directory.is_dir()
