"""The order of the pipeline's calls, read from its graph before anything runs."""

from collections.abc import Mapping
from typing import Any

from netpipe.harness.expect import expect_order


def test_order(netpipe_lint: Mapping[str, Any]) -> None:
    """Every call stands where it costs neither speed nor data: nothing behind mp_prefetch."""
    expect_order(netpipe_lint)
