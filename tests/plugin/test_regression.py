"""A regression: a failed test, once two sessions or more are sure of it."""

import pytest

from tests.plugin.project import LOAD_TIME, Project, line_with
from tests.plugin.recorded import H200, costlier, costly, recorded

REASON = "load_cpu_ratio is 1.50 x that of cpu-testing-4/0001_first.json (bound 1.03)"


@pytest.fixture
def baselined(project: Project) -> Project:
    """A project with a baseline."""
    project.record()
    return project


def test_a_regression_fails_its_test(baselined: Project) -> None:
    """A loader that costs half as much again in two sessions is one failed test, and says why."""
    baselined.sessions = [costly(), costly()]
    result = baselined.compare()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"REGRESSED: {REASON}"])
    result.stdout.no_fnmatch_line("*Traceback*")
    assert len(baselined.requests) == 2


def test_an_alarm_must_be_confirmed(baselined: Project) -> None:
    """A loader that is slow in the first session and fine in the others has not regressed."""
    baselined.sessions = [costly(), recorded(), recorded()]
    result = baselined.compare()
    result.assert_outcomes(passed=1)
    line_with(result, "measuring again", REASON)
    assert len(baselined.requests) == 3


def test_what_did_not_change_is_measured_once(baselined: Project) -> None:
    """Without an alarm, there is one session and the outcome is PASS."""
    result = baselined.compare()
    result.assert_outcomes(passed=1)
    line_with(result, "test_load_time", "1.00 x", "PASS")
    assert len(baselined.requests) == 1


def test_an_improvement_passes(baselined: Project) -> None:
    """A loader that costs half of what it did passes, and is named as improved."""
    baselined.sessions = [recorded(load_cpu_ratio=1.0)]
    result = baselined.compare()
    result.assert_outcomes(passed=1)
    line_with(result, "IMPROVED:", "load_cpu_ratio", "0.50 x", "cpu-testing-4/0001_")


def test_another_device_has_another_baseline(baselined: Project) -> None:
    """A baseline of one device key is not compared with a run on another."""
    baselined.sessions = [recorded(device=H200)]
    result = baselined.compare()
    line_with(result, "NO_BASELINE:", "h200-x1")


def test_the_latest_baseline_counts(baselined: Project) -> None:
    """A newer baseline takes the place of the older one."""
    baselined.record(costlier())
    baselined.sessions = [costlier()]
    result = baselined.compare()
    result.assert_outcomes(passed=1)
    line_with(result, "test_load_time", "1.00 x", "PASS")
    assert len(baselined.requests) == 1


def test_small_steps_fail_in_sum(baselined: Project) -> None:
    """What the latest baseline allows fails against the first one, where it is 10% or more."""
    baselined.record(recorded(load_cpu_ratio=2.2))
    baselined.sessions = [recorded(load_cpu_ratio=2.22)]
    result = baselined.compare()
    result.assert_outcomes(failed=1)
    reason = "load_cpu_ratio is 1.11 x that of cpu-testing-4/0001_first.json (bound 1.10)"
    result.stdout.fnmatch_lines([f"REGRESSED: {reason}"])
    assert len(baselined.requests) == 2


def test_the_baseline_stands_in_the_table(baselined: Project) -> None:
    """pytest-benchmark's own table shows the baseline beside this run."""
    result = baselined.compare()
    result.stdout.fnmatch_lines_random(["test_load_time (NOW) *", "test_load_time (0001_first) *"])


def test_the_baselines_folder_can_be_chosen(baselined: Project) -> None:
    """With --netpipe-baselines, the baselines lie in another folder, from the root on."""
    (baselined.pytester.path / "baselines").rename(baselined.pytester.path / "accepted")
    baselined.sessions = [costly()]
    baselined.compare("--netpipe-baselines", "accepted").assert_outcomes(failed=1)


def test_every_benchmark_is_its_own_comparison(project: Project) -> None:
    """Two tests of one measurement regress each for itself; the sessions are shared."""
    project.has(
        LOAD_TIME
        + """
    def test_step_time(netpipe_benchmark):
        netpipe_benchmark("step_s")
"""
    )
    project.record()
    project.sessions = [costly()]
    result = project.compare()
    result.assert_outcomes(passed=1, failed=1)
    assert len(project.requests) == 2
