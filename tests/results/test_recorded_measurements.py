"""Measurements of planted faults, as the catalogue recorded them, still have their verdicts."""

from pathlib import Path

import pytest

from netpipe.reporting.rendering import read_document
from netpipe.results.measurement import Measurement, parse_measurement
from netpipe.verdict.decision import judge
from perf_tests.studies.faults.catalogue import find

RECORDED = sorted(Path(__file__).with_name("measurements").glob("*.json"))


def recorded(path: Path) -> Measurement:
    """Read a measurement recorded by `python -m perf_tests.studies.faults --record`."""
    return parse_measurement(read_document(path), path)


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_recorded_fault_keeps_its_name(path: Path) -> None:
    """The recorded figures give the recorded verdict."""
    case = find(path.stem)
    measurement = recorded(path)
    named = {judge(measurement).kind} & set(case.kinds)
    assert named or case.finding in {finding.name for finding in measurement.findings}


def test_every_verdict_that_can_be_planted_is_recorded() -> None:
    """Each kind has a recorded measurement, including the fine ones."""
    assert {judge(recorded(path)).kind for path in RECORDED} >= {
        "at-risk",
        "contention",
        "forced-sync",
        "healthy",
        "host-bound",
        "jitter",
        "loader-bound",
        "no-overlap",
        "recompiling",
        "transfer-bound",
    }


def test_a_forced_sync_is_recorded_with_its_line() -> None:
    """The message has the blocking line in the file of the catalogue's loops."""
    synced = next(recorded(path) for path in RECORDED if path.stem.startswith("sync-float"))
    assert "perf_tests/faults/loops.py:" in judge(synced).message


def test_the_instruments_cost_less_than_a_hundredth() -> None:
    """The harness's own cost is below 1% of the step in every recorded measurement."""
    for path in RECORDED:
        overhead_fraction = recorded(path).overhead_fraction
        assert overhead_fraction is not None
        assert 0 <= overhead_fraction < 0.01
