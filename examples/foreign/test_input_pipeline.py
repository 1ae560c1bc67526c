"""The input is fast enough, in the right order, and training never waits for it."""

import pytest

from netpipe.testing import expect_loading_below_step, expect_no_stall, expect_order


def test_load_time(netpipe_benchmark):
    """Loading a batch takes no longer than the baseline."""
    netpipe_benchmark("load_s_per_batch")


@pytest.mark.netpipe(headroom=1.25)
def test_loading_stays_below_the_step(netpipe_measurement, netpipe_limits):
    """A batch is loaded in less time than a step takes, with a quarter to spare."""
    expect_loading_below_step(netpipe_measurement, netpipe_limits)


def test_order(netpipe_lint):
    """Batching and mp_prefetch are where Grain can use them."""
    expect_order(netpipe_lint)


@pytest.mark.netpipe(accelerator="emulated:30ms", stall_fraction=0.05)
def test_training_does_not_wait(netpipe_measurement, netpipe_limits):
    """An accelerator of 30 ms per step spends at most 5% of its time waiting for batches."""
    expect_no_stall(netpipe_measurement, netpipe_limits)
