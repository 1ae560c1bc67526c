"""Leaks of real loaders in real sessions."""

import os
from pathlib import Path

import pytest

from netpipe.jobs.parent import CHILD_COMMAND, run_measurement
from netpipe.jobs.targets import name_targets
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.results.measurement import Measurement
from tests.jobs import leaking_loaders
from tests.jobs.leaking_loaders import KEPT_BYTES, OWN_FOLDER

FILE = leaking_loaders.__file__
FINDINGS = {"memory-grows", "shared-memory-grows", "open-files-grow", "left-after-close"}


@pytest.fixture(autouse=True)
def _own_shared_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore files of tests that run at the same time."""
    monkeypatch.setenv(OWN_FOLDER, str(tmp_path))


def measure(loader: str) -> tuple[Measurement, dict[str, str]]:
    """Measure a loader until growth is judged; return its footprint's findings too."""
    for budget_s in (4.0, 16.0, 64.0):
        targets = name_targets(loader=f"{FILE}:{loader}")
        request = MeasureRequest(targets=targets, accelerator="emulated:5ms", budget_s=budget_s)
        found = run_measurement(CHILD_COMMAND, request)
        # On a busy machine, few rounds fit into the smallest budget.
        if not any(each.name == "growth-not-judged" for each in found.findings):
            break
    messages = {each.name: each.message for each in found.findings if each.name in FINDINGS}
    return found, messages


def test_leaks_are_found_where_they_grow() -> None:
    """Memory grows by a MiB per batch in the worker; files grow, and remain after the close."""
    found, messages = measure("leaking")
    assert set(messages) == {"memory-grows", "shared-memory-grows", "left-after-close"}
    assert " worker 1 (pid" in messages["memory-grows"]
    assert found.growing_process.startswith("worker 1")
    growth = found.growth_bytes_per_batch
    assert growth is not None
    assert 0.8 * KEPT_BYTES < growth.low < growth.high < 1.25 * KEPT_BYTES
    for name in ("shared-memory-grows", "left-after-close"):
        assert f"in {os.environ[OWN_FOLDER]}, such as netpipe-leak-" in messages[name]


def test_a_healthy_loader_is_not_blamed() -> None:
    """A healthy loader has no finding, and its peak is at least that of an interpreter."""
    found, messages = measure("healthy")
    assert messages == {}
    assert found.peak_pss_bytes is not None
    assert found.peak_pss_bytes > 50e6
