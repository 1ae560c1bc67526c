"""Leaks of real loaders in real sessions."""

import pytest

from netpipe.measuring.child import child_command
from netpipe.measuring.request import MeasureRequest
from netpipe.results.measurement import Measurement
from netpipe.session.footprint import SHARED_FOLDER
from netpipe.session.parent import run_measurement
from tests.session import leaking_loaders
from tests.session.leaking_loaders import KEPT_BYTES

FILE = leaking_loaders.__file__
OF_FOOTPRINTS = {"memory-grows", "shared-memory-grows", "open-files-grow", "left-after-close"}


def measure(loader: str) -> tuple[Measurement, dict[str, str]]:
    """Measure a loader for a short time; return the findings about its footprint too."""
    request = MeasureRequest(accelerator="emulated:5ms", budget_s=4.0)
    found = run_measurement(child_command(f"{FILE}:{loader}", None, None), request)
    messages = {each.name: each.message for each in found.findings if each.name in OF_FOOTPRINTS}
    return found, messages


@pytest.mark.parametrize(
    ("loader", "process"),
    [("leaking_here", "the training process"), ("leaking_worker", "worker 1")],
)
def test_memory_that_grows_is_found_where_it_grows(loader: str, process: str) -> None:
    """A MiB kept of each batch is the slope, and its process is named."""
    found, messages = measure(loader)
    assert set(messages) == {"memory-grows"}
    assert f" {process} (pid" in messages["memory-grows"]
    assert found.growing_process.startswith(process)
    growth = found.growth_bytes_per_batch
    assert growth is not None
    assert 0.8 * KEPT_BYTES < growth.low < growth.high < 1.25 * KEPT_BYTES


def test_files_left_in_shared_memory_are_found() -> None:
    """They grow with the batches, and remain after the loader was closed."""
    try:
        _, messages = measure("leaving_files")
    finally:
        for left in SHARED_FOLDER.glob("netpipe-leak-*"):
            left.unlink(missing_ok=True)
    assert set(messages) == {"shared-memory-grows", "left-after-close"}
    for message in messages.values():
        assert f"in {SHARED_FOLDER}, such as" in message
        assert "netpipe-leak-" in message


def test_a_healthy_loader_is_not_blamed() -> None:
    """Nothing grows and nothing is left, and its peak holds at least this interpreter."""
    found, messages = measure("healthy")
    assert messages == {}
    assert found.peak_pss_bytes is not None
    assert found.peak_pss_bytes > 50e6
