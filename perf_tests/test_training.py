"""The time of a step, alone and with real batches."""

from collections.abc import Callable

from netpipe.results.measurement import Measurement
from netpipe.testing import Limits, expect_no_stall

Benchmark = Callable[[str], Measurement]


def test_step_time(netpipe_benchmark: Benchmark) -> None:
    """A step on resident batches takes no longer than in the baseline."""
    netpipe_benchmark("step_s")


def test_training_step_time(netpipe_benchmark: Benchmark) -> None:
    """A real step takes no longer than in the baseline."""
    netpipe_benchmark("train_s_per_step")


def test_training_does_not_wait(netpipe_measurement: Measurement, netpipe_limits: Limits) -> None:
    """A real step takes as long as a synthetic one, unless the loader shares the step's cores."""
    expect_no_stall(netpipe_measurement, netpipe_limits)
