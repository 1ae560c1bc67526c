"""The work of a batch, counted instead of timed: no more of it than before."""

import pytest

from netpipe.suite.expectations import CountedWork, expect_no_more_work


def test_a_batch_takes_no_more_work(netpipe_work: CountedWork) -> None:
    """The loader and the step do no more for a batch than in the baseline."""
    expect_no_more_work(netpipe_work)


@pytest.mark.netpipe(accelerator="emulated:h100")
def test_a_batch_for_a_gpu_takes_no_more_work(netpipe_work: CountedWork) -> None:
    """Nor does the loader for a batch of the size that a GPU trains on."""
    expect_no_more_work(netpipe_work)
