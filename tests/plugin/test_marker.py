"""The netpipe marker: limits of one test."""

import pytest

from tests.plugin.project import Project, line_with

LIMITS = """
    import pytest

    pytestmark = pytest.mark.netpipe(headroom=1.5, stall_fraction=0.2)

    def test_module(netpipe_limits):
        assert (netpipe_limits.headroom, netpipe_limits.stall_fraction) == (1.5, 0.2)

    @pytest.mark.netpipe(headroom=2.0)
    def test_closest(netpipe_limits):
        assert (netpipe_limits.headroom, netpipe_limits.stall_fraction) == (2.0, 0.2)
"""

HEADROOM = """
    import pytest
    from netpipe.testing import expect_loading_below_step

    @pytest.mark.netpipe(headroom={headroom})
    def test_headroom(netpipe_measurement, netpipe_limits):
        expect_loading_below_step(netpipe_measurement, netpipe_limits)
"""


def test_the_closest_marker_counts(project: Project) -> None:
    """A limit on a test goes before the same limit on its module; the others remain."""
    project.has(LIMITS)
    project.run().assert_outcomes(passed=2)
    assert not project.requests


def test_the_limits_without_a_marker(project: Project) -> None:
    """Without a marker, headroom must reach 1 and the stall fraction stay within 5%."""
    project.has(LIMITS.replace("pytestmark", "unused").replace("(1.5, 0.2)", "(1.0, 0.05)"))
    project.run("-k", "module").assert_outcomes(passed=1)


@pytest.mark.parametrize(("headroom", "outcome"), [(2.9, "passed"), (3.1, "failed")])
def test_a_limit_decides(project: Project, headroom: float, outcome: str) -> None:
    """A headroom of 3 passes a lower limit and fails a higher one, with both figures."""
    project.has(HEADROOM.format(headroom=headroom))
    result = project.run()
    result.assert_outcomes(**{outcome: 1})
    if outcome == "failed":
        line_with(result, "headroom 3.00", "3.10")


@pytest.mark.parametrize(("limit", "outcome"), [("4.1e8", "passed"), ("3.9e8", "failed")])
@pytest.mark.parametrize("expectation", ["expect_footprint", "expect_no_stall"])
def test_a_limit_of_memory_decides(
    project: Project, limit: str, outcome: str, expectation: str
) -> None:
    """A peak of 400 MB exceeds a lower limit in each expectation with limits."""
    test = HEADROOM.replace("expect_loading_below_step", expectation)
    project.has(test.replace("headroom={headroom}", f"peak_pss_bytes={limit}"))
    result = project.run()
    result.assert_outcomes(**{outcome: 1})
    if outcome == "failed":
        line_with(result, "peak_pss_bytes is 400 MB, at most 390 MB allowed")


def test_an_unknown_word_is_a_usage_error(project: Project) -> None:
    """A marker with a misspelt limit ends the run; the message names the test and all limits."""
    marker = "import pytest\n@pytest.mark.netpipe(footroom=2)"
    project.has(f"{marker}\ndef test_x(netpipe_measurement): pass\n")
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    limits = ("headroom", "stall_fraction", "peak_pss_bytes", "accelerator")
    line_with(result, "ERROR: test_perf.py::test_x", *limits, "'footroom'")


def test_a_limit_without_a_name_is_a_usage_error(project: Project) -> None:
    """A marker with a positional argument ends the run."""
    project.has("import pytest\n@pytest.mark.netpipe(1.25)\ndef test_x(): pass\n")
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "ERROR: test_perf.py::test_x", "1.25")
