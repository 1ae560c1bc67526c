"""Beside pytest-xdist: correctness in its workers, whatever is timed alone, in one call."""

import pytest

from tests.suite.project import INI, NO_STALL, Project
from tests.suite.recorded import recorded

WHERE = """
    import os

    def test_correctness():
        assert os.environ["PYTEST_XDIST_WORKER"].startswith("gw")
"""
TIMED_ALONE = """
    import os

    def test_load_time(netpipe_benchmark):
        assert "PYTEST_XDIST_WORKER" not in os.environ
        netpipe_benchmark("load_s_per_batch")
"""


@pytest.mark.parametrize("flags", [("-n2",), ("-n2", "--dist=loadfile"), ("-n1", "--dist=each")])
def test_timed_tests_run_alone(project: Project, flags: tuple[str, ...]) -> None:
    """One call runs both, each where it belongs, and counts all of them."""
    project.has(WHERE, "test_correct")
    project.has(TIMED_ALONE)
    result = project.run(*flags)
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=2)
    assert len(project.requests) == 1


def test_a_project_may_always_use_workers(project: Project) -> None:
    """With `-n` in its addopts, a run of timed tests alone measures and compares them."""
    project.record()
    project.pytester.makeini(INI.rstrip() + " -n2\n")
    result = project.compare()
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*against the baseline*", "*test_load_time*PASS*"])


def test_a_regression_fails_beside_workers(project: Project) -> None:
    """It is not lost because something else ran in parallel."""
    project.record()
    project.has(WHERE, "test_correct")
    project.sessions = [recorded(load_s=0.05), recorded(load_s=0.05)]
    result = project.compare("-n2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*REGRESSED*"])


def test_a_failure_in_a_worker_stays_one(project: Project) -> None:
    """The run fails for a test of correctness too, and the timed ones are run all the same."""
    project.has("def test_wrong(): assert False", "test_correct")
    result = project.run("-n2")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1, failed=1)


def test_nothing_timed_is_collected_once(project: Project) -> None:
    """Without a timed test, the run is pytest-xdist's alone."""
    project.has(WHERE, "test_perf")
    result = project.run("-n2")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*netpipe*==*")


def test_what_was_not_chosen_is_not_run(project: Project) -> None:
    """`-k` holds for timed tests too."""
    project.has(WHERE, "test_correct")
    result = project.run("-n2", "-k", "correctness")
    result.assert_outcomes(passed=1)
    assert not project.requests


def test_the_first_failure_ends_the_run(project: Project) -> None:
    """After `-x` and a failure in a worker, nothing is measured."""
    project.has("def test_wrong(): assert False", "test_correct")
    result = project.run("-n1", "-x")
    result.assert_outcomes(failed=1)
    assert not project.requests


@pytest.mark.parametrize("ask", ["netpipe_measurement", "netpipe_lint"])
def test_a_timed_test_in_a_worker_fails(project: Project, ask: str) -> None:
    """One that asks by name while it runs got into a worker: it fails and says what to do."""
    project.has(f"def test_hidden(request): request.getfixturevalue({ask!r})")
    result = project.compare("-n1")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*a timed test must run alone*as arguments*-n0*"])


def test_each_timed_test_reports_once(project: Project) -> None:
    """JUnit holds both tests, one time each."""
    project.has(WHERE, "test_correct")
    project.has(NO_STALL)
    project.run("-n2", "--junitxml=run.xml")
    written = (project.pytester.path / "run.xml").read_text()
    assert written.count("<testcase") == 2
    assert 'tests="2"' in written
