"""A real session, from the test to its message."""

import pytest

from tests.plugin.project import leave_xdist, line_with

CONFTEST = """
    import numpy as np
    import pytest

    def failing():
        for n in range(3):
            yield np.full((4, 8), n, np.int32)
        raise ValueError("shard 7 is cut off")

    @pytest.fixture
    def netpipe_loader():
        return failing
"""


def test_what_a_loader_raises_arrives(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An exception of the loader, in another process, fails the test with its own message."""
    leave_xdist(monkeypatch)
    ini = "netpipe_accelerator = emulated:5ms\nnetpipe_budget = 1\n"
    pytester.makeini(f"[pytest]\naddopts = -p no:hypothesispytest\n{ini}")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile("def test_measured(netpipe_measurement): pass")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(errors=1)
    line_with(result, "3 batches", "ValueError: shard 7")
