"""Which accelerator a test is measured against: by flag, by marker, several in turn."""

from dataclasses import replace

from netpipe.results.statistics import median_interval
from netpipe.verdict import clear
from tests.plugin.project import LOAD_TIME, Project, line_with
from tests.plugin.recorded import recorded

MARKED = """
    import pytest

    @pytest.mark.netpipe(accelerator="emulated:7ms")
    def test_marked(netpipe_measurement):
        pass
"""


def test_several_accelerators_parametrize_a_test(project: Project) -> None:
    """A list of accelerators runs each measured test once for each, and others once."""
    project.has(LOAD_TIME + "\n    def test_plain(): pass\n")
    result = project.run("--netpipe-accelerator", "auto,emulated:5ms", "-v")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines_random(
        ["*::test_load_time[[]auto] PASSED*", "*::test_load_time[[]emulated:5ms] PASSED*"]
    )
    assert [request.accelerator for request in project.requests] == ["auto", "emulated:5ms"]


def test_the_accelerator_is_named_in_the_comparison(project: Project) -> None:
    """The name in brackets that a test has got is printed as it is, not as markup."""
    result = project.compare("--netpipe-accelerator", "auto,emulated:5ms")
    result.stdout.fnmatch_lines_random(
        ["*test_load_time[[]auto]*NO_BASELINE*", "*test_load_time[[]emulated:5ms]*NO_BASELINE*"]
    )


def test_each_accelerator_has_its_rates_and_needs(project: Project) -> None:
    """The table has tokens/s and MFU; a line below says why one is not known, or what is needed."""
    not_known = {"mfu": "no peak is known for cpu-testing-4"}
    project.sessions = [
        replace(recorded(), tokens_per_s=median_interval([52345.0] * 6), not_known=not_known)
    ]
    result = project.run()
    assert line_with(result, "cpu-testing-4 ", "52.3 k").split()[-2:] == ["-", "healthy"]
    line_with(
        result,
        "cpu-testing-4: tokens/s: 52.3 k (52.3 k to 52.3 k); "
        "MFU: not known: no peak is known for cpu-testing-4",
    )
    line_with(result, "cpu-testing-4: workers needed: 1 (has 0)")


def test_a_marker_chooses_the_accelerator(project: Project) -> None:
    """A test that names its accelerator is measured against that one, whatever the flag says."""
    project.has(MARKED)
    result = project.run("--netpipe-accelerator", "auto,emulated:5ms")
    result.assert_outcomes(passed=1)
    assert [request.accelerator for request in project.requests] == ["emulated:7ms"]


def test_a_bad_accelerator_in_a_marker_is_named(project: Project) -> None:
    """A marker's accelerator that cannot be read fails its test in one sentence."""
    project.has(MARKED.replace("7ms", "fast"))
    result = project.run()
    result.assert_outcomes(errors=1)
    line_with(result, "accelerator", "emulated:<time>", "emulated:fast")


def test_sessions_for_the_gate_take_the_whole_budget(project: Project) -> None:
    """Those that are compared or recorded; an emulated one that only a verdict needs is short."""
    project.has(LOAD_TIME + MARKED)
    project.record()
    project.compare().assert_outcomes(passed=2)
    rules = {request.accelerator: request.decided_by for request in project.requests}
    assert rules == {"auto": "", "emulated:7ms": clear.RULE}
