"""What every performance test needs before it measures."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def _data_is_there(data_directory: Path) -> None:
    """Make the data before a session is timed, so that no session has to."""
    assert data_directory.is_dir()
