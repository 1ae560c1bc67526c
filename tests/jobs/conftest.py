"""Fixtures of the tests of sessions."""

import tempfile
from pathlib import Path

import pytest


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The folder that children leave their traces in."""
    return tmp_path


@pytest.fixture
def temporary(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, here and in children."""
    monkeypatch.setattr(tempfile, "tempdir", str(here))
    monkeypatch.setenv("TMPDIR", str(here))
    return here
