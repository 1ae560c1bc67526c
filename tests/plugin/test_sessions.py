"""Real sessions, from the test to the verdict."""

import pytest

from tests.plugin.project import leave_xdist, line_with

CONFTEST = """
    import itertools

    import numpy as np
    import pytest

    def batches():
        return (np.full((4, 8), n, np.int32) for n in itertools.count())

    def failing():
        yield from itertools.islice(batches(), 3)
        raise ValueError("shard 7 is cut off")

    @pytest.fixture
    def netpipe_loader():
        return batches
"""
MEASURED = """
    def test_measured(netpipe_measurement):
        assert netpipe_measurement.device.key == "emulated-5ms"
        assert netpipe_measurement.step_s.median > 0.004
        assert netpipe_measurement.load_s_per_batch.n >= 1
"""


@pytest.fixture
def measuring(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A project that measures a generator against a clock of 5 ms, in a second."""
    leave_xdist(monkeypatch)
    ini = "netpipe_accelerator = emulated:5ms\nnetpipe_budget = 1\n"
    pytester.makeini(f"[pytest]\naddopts = -p no:hypothesispytest\n{ini}")
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(MEASURED)
    return pytester


def test_a_loader_is_measured(measuring: pytest.Pytester) -> None:
    """A generator is measured in a session and its figures come back to the test."""
    result = measuring.runpytest_subprocess()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*why training waits*", "*emulated-5ms*"])


def test_what_a_loader_raises_arrives(measuring: pytest.Pytester) -> None:
    """An exception of the loader, in another process, fails the test with its own message."""
    measuring.makeconftest(CONFTEST.replace("return batches", "return failing"))
    result = measuring.runpytest_subprocess()
    result.assert_outcomes(errors=1)
    line_with(result, "3 batches", "ValueError: shard 7")
