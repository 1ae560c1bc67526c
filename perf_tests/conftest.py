"""Preparation for all performance tests."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _data_is_there(data_directory: Path) -> None:
    """Create the data before any session is timed."""
    assert data_directory.is_dir()
