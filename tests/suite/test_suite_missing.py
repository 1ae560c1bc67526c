"""No baseline: said plainly, and a failure where that is asked for."""

import pytest

from tests.suite.project import LOAD_TIME, Project


def test_no_baseline_is_said_and_passes(project: Project) -> None:
    """Without a baseline the run passes, names the device key and says how to record one."""
    result = project.compare()
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "NO_BASELINE: there is no baseline for cpu-testing-4",
            "record one: the same command with --netpipe-record NAME",
        ]
    )


def test_no_baseline_fails_where_asked(project: Project) -> None:
    """With --netpipe-missing fail, a device without a baseline fails its benchmarks."""
    result = project.compare("--netpipe-missing", "fail")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["NO_BASELINE: there is no baseline for cpu-testing-4"])


def test_a_new_benchmark_has_no_baseline(project: Project) -> None:
    """A benchmark that the baseline does not hold is named by its outcome, and fails if asked."""
    project.record()
    project.has(LOAD_TIME, "test_new")
    said = "NO_BASELINE: cpu-testing-4/0001_first.json has no such benchmark"
    result = project.compare()
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines([said])
    result = project.compare("--netpipe-missing", "fail")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([said])


def test_a_run_without_comparison_says_so(project: Project) -> None:
    """Without --benchmark-compare nothing is compared, and the summary says it."""
    project.record()
    result = project.run()
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["compared with no baseline: --benchmark-compare does that"])
