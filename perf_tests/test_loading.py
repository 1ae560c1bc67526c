"""The time to load a batch, compared with the baseline and with a step."""

from collections.abc import Callable

from netpipe.results.measurement import Measurement
from netpipe.testing import Limits, expect_loading_below_step

Benchmark = Callable[[str], Measurement]


def test_load_time(netpipe_benchmark: Benchmark) -> None:
    """Loading a batch takes no longer than in the baseline."""
    netpipe_benchmark("load_s_per_batch")


def test_loading_stays_below_the_step(
    netpipe_measurement: Measurement, netpipe_limits: Limits
) -> None:
    """Loading a batch takes less time than the synthetic step."""
    expect_loading_below_step(netpipe_measurement, netpipe_limits)
