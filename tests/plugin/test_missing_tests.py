"""Sessions of a test that does not exist, as in another version."""

import os
import sys
from pathlib import Path

import pytest

from netpipe.errors import NoSuchTestError, SessionError
from netpipe.jobs.parent import ProcessEnvironment, run_measurement
from netpipe.measuring.measure_request import MeasureRequest
from tests.root_process import ROOT


@pytest.fixture
def place(tmp_path: Path) -> ProcessEnvironment:
    """A folder with a test of another name, and one that cannot be imported."""
    (tmp_path / "test_there.py").write_text("def test_other(): pass")
    (tmp_path / "test_broken.py").write_text("import nothing_of_this_name")
    path = os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))
    return ProcessEnvironment(
        tmp_path, {"PYTHONPATH": path, "PYTEST_ADDOPTS": "-p no:hypothesispytest"}
    )


def run(place: ProcessEnvironment, node: str) -> None:
    """Start a session of a test."""
    assert place.folder is not None
    command = [sys.executable, "-m", "pytest", str(place.folder / node), "-n0"]
    run_measurement(command, MeasureRequest(accelerator="emulated:5ms", budget_s=1), place)


@pytest.mark.parametrize("node", ["test_there.py::test_one", "test_nowhere.py::test_one"])
def test_a_test_that_is_not_there_is_missing(place: ProcessEnvironment, node: str) -> None:
    """A missing test or file has an error of its own."""
    with pytest.raises(NoSuchTestError):
        run(place, node)


def test_a_file_that_cannot_be_imported_is_not_missing(place: ProcessEnvironment) -> None:
    """A test file that raises is a session that failed, with its lines."""
    with pytest.raises(SessionError, match="nothing_of_this_name") as raised:
        run(place, "test_broken.py::test_one")
    assert not isinstance(raised.value, NoSuchTestError)
