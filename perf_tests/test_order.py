"""The order of the pipeline's calls, read from its graph before anything runs."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from netpipe.grain_access.source_lines import record_source_lines
from netpipe.linting.linter import lint
from netpipe.testing import expect_order

MAX_LINT_CPU_S = 1.0  # the check runs before every measurement


def test_order(netpipe_lint: Mapping[str, Any]) -> None:
    """The order of the pipeline's calls costs neither speed nor data."""
    expect_order(netpipe_lint)


def test_the_order_is_read_in_under_a_second(netpipe_loader: Callable[[], Any]) -> None:
    """Making and checking the observed pipeline takes less than a second of CPU time."""
    netpipe_loader()  # Imports are not timed.
    started_s = time.process_time()
    with record_source_lines() as recording:
        dataset = netpipe_loader()
    lint(dataset, recording=recording)
    taken_s = time.process_time() - started_s
    assert taken_s < MAX_LINT_CPU_S
