"""The accelerator of a test: from a flag or a marker, one or several."""

from dataclasses import replace

from netpipe.results.statistics import median_interval
from tests.plugin.project import LOAD_TIME, NO_STALL, Project, line_with
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
    """The parameter in a test's name is printed literally, not as markup."""
    result = project.compare("--netpipe-accelerator", "auto,emulated:5ms")
    result.stdout.fnmatch_lines_random(
        ["NO_BASELINE: *test_load_time[[]auto]*", "NO_BASELINE: *test_load_time[[]emulated:5ms]*"]
    )


def test_each_accelerator_has_its_rates_and_needs(project: Project) -> None:
    """The table has tokens/s and MFU; lines below say why one is unknown."""
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
    result.stdout.no_fnmatch_line("*workers needed*")


def test_a_marker_chooses_the_accelerator(project: Project) -> None:
    """The accelerator of a marker goes before that of the flag."""
    project.has(MARKED)
    result = project.run("--netpipe-accelerator", "auto,emulated:5ms")
    result.assert_outcomes(passed=1)
    assert [request.accelerator for request in project.requests] == ["emulated:7ms"]


def test_a_bad_accelerator_in_a_marker_is_named(project: Project) -> None:
    """A wrong accelerator in a marker fails its test with one sentence."""
    project.has(MARKED.replace("7ms", "fast"))
    result = project.run()
    result.assert_outcomes(errors=1)
    line_with(result, "accelerator", "emulated:<time>", "emulated:fast")


def test_sessions_for_a_verdict_end_when_it_is_clear(project: Project) -> None:
    """Nothing is compared here, so only the verdict counts, with or without a benchmark."""
    project.run().assert_outcomes(passed=1)
    assert [request.stopping_rule for request in project.requests] == ["clear"]


def test_sessions_for_the_gate_do_not_end_when_it_is_clear(project: Project) -> None:
    """An emulated session for a verdict alone ends once it is clear; a compared one does not."""
    project.has(LOAD_TIME + MARKED)
    project.compare().assert_outcomes(passed=2)
    assert {request.stopping_rule for request in project.requests} == {"clear"}, "no baseline"
    project.record()
    project.compare().assert_outcomes(passed=2)
    rules = {request.accelerator: request.stopping_rule for request in project.requests}
    assert rules == {"auto": "compared", "emulated:7ms": "clear"}


def test_a_step_on_fewer_devices_than_the_host_has(project: Project) -> None:
    """Its baseline shows after a session, which ended too early to be compared with it."""
    project.has(LOAD_TIME)
    project.record()
    project.requests.clear()
    project.device = replace(project.device, key="cpu-testing-8")
    result = project.compare()
    result.assert_outcomes(passed=1)
    line_with(result, "there is no baseline for cpu-testing-8")
    assert [request.stopping_rule for request in project.requests] == ["clear", "compared"]


def test_a_short_session_is_not_compared(project: Project) -> None:
    """A benchmark after a verdict of the same subject has a session of its own."""
    project.has(NO_STALL + LOAD_TIME.replace("test_load_time", "test_then_load"))
    emulated = ("--netpipe-accelerator", "emulated:7ms")
    project.run(*emulated, "--netpipe-record", "first", "--netpipe-sessions", "1")
    assert [request.stopping_rule for request in project.requests] == ["clear", "compared"]
