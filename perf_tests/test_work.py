"""The counted work of a batch, compared with the baseline."""

from netpipe.testing import CountedWork, expect_no_more_work


def test_a_batch_takes_no_more_work(netpipe_work: CountedWork) -> None:
    """The loader and the step do no more for a batch than in the baseline."""
    expect_no_more_work(netpipe_work)
