"""The same loader with an emulated accelerator, which leaves the host's cores to the loader."""

import pytest

from netpipe.results.measurement import Measurement
from netpipe.testing import Limits, expect_loading_below_step, expect_no_stall

pytestmark = pytest.mark.netpipe(accelerator="emulated:25ms")


def test_loading_stays_below_an_emulated_step(
    netpipe_measurement: Measurement, netpipe_limits: Limits
) -> None:
    """Loading a batch takes less time than an emulated step of 25 ms."""
    expect_loading_below_step(netpipe_measurement, netpipe_limits)


def test_an_emulated_accelerator_does_not_wait(
    netpipe_measurement: Measurement, netpipe_limits: Limits
) -> None:
    """This host's loader keeps an accelerator with steps of 25 ms busy."""
    expect_no_stall(netpipe_measurement, netpipe_limits)
