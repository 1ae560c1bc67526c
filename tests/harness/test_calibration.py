"""The workload that takes a machine's speed out of a figure."""

from collections.abc import Iterator

import pytest

from netpipe.harness import calibration


def test_the_workload_takes_cpu_time() -> None:
    """It uses this thread's CPU time, and there is something to divide by."""
    assert calibration.workload_cpu_s() > 0


def test_one_disturbed_run_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figure is the median of three runs."""
    runs: Iterator[float] = iter([0.010, 0.090, 0.011])
    monkeypatch.setattr(calibration, "_one_run_s", lambda: next(runs))
    assert calibration.workload_cpu_s() == 0.011
    assert list(runs) == []


def test_the_workload_is_the_same_every_time() -> None:
    """A run leaves its input as it was, or the next would sort what is sorted."""
    before = calibration._VALUES.copy()
    calibration.workload_cpu_s()
    assert (before == calibration._VALUES).all()
    assert (calibration._VALUES[1:] < calibration._VALUES[:-1]).any()
