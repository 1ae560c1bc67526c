"""Comparisons with a baseline: a regression fails its test, other outcomes pass."""

import pytest

from tests.plugin.project import LOAD_TIME, Project, line_with
from tests.plugin.recorded import H200, costly, recorded

REASON = "load_cpu_ratio is 1.50 x that of cpu-testing-4/0001_first.json (bound 1.03)"


@pytest.fixture
def baselined(project: Project) -> Project:
    """A project with a baseline."""
    project.record()
    return project


def test_a_regression_fails_its_test(baselined: Project) -> None:
    """A loader that costs half as much again in two sessions is one failed test."""
    baselined.sessions = [costly(), costly()]
    result = baselined.compare()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"REGRESSED: {REASON}"])
    result.stdout.no_fnmatch_line("*Traceback*")
    line_with(result, "measuring again", REASON)
    assert len(baselined.requests) == 2


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ([2.0], ["test_load_time", "1.00 x", "PASS"]),
        ([3.0, 2.0, 2.0], ["test_load_time", "1.00 x", "PASS"]),
        ([1.0], ["IMPROVED:", "load_cpu_ratio", "0.50 x", "cpu-testing-4/0001_"]),
    ],
    ids=["equal", "slow at first", "improved"],
)
def test_other_outcomes_pass(baselined: Project, ratios: list[float], words: list[str]) -> None:
    """An alarm of the first session alone is not a regression."""
    baselined.sessions = [recorded(load_cpu_ratio=ratio) for ratio in ratios]
    result = baselined.compare()
    result.assert_outcomes(passed=1)
    line_with(result, *words)
    assert len(baselined.requests) == len(ratios)


def test_small_steps_add_up(baselined: Project) -> None:
    """A change that the latest baseline allows fails against the first one, at 10% or more."""
    baselined.record(recorded(load_cpu_ratio=2.2))
    baselined.sessions = [recorded(load_cpu_ratio=2.22)]
    result = baselined.compare()
    result.assert_outcomes(failed=1)
    reason = "load_cpu_ratio is 1.11 x that of cpu-testing-4/0001_first.json (bound 1.10)"
    result.stdout.fnmatch_lines([f"REGRESSED: {reason}"])


def test_the_table_has_the_baseline(baselined: Project) -> None:
    """pytest-benchmark's own table shows the baseline beside this run."""
    result = baselined.compare()
    result.stdout.fnmatch_lines_random(["test_load_time (NOW) *", "test_load_time (0001_first) *"])


def test_the_baselines_folder_can_be_chosen(baselined: Project) -> None:
    """--netpipe-baselines is a path from the root."""
    (baselined.pytester.path / "baselines").rename(baselined.pytester.path / "accepted")
    baselined.sessions = [costly()]
    baselined.compare("--netpipe-baselines", "accepted").assert_outcomes(failed=1)


def test_benchmarks_share_sessions(project: Project) -> None:
    """Two tests of one measurement regress each for itself."""
    step = 'def test_step_time(netpipe_benchmark): netpipe_benchmark("step_s")'
    project.has(f"{LOAD_TIME}\n    {step}\n")
    project.record()
    project.sessions = [costly()]
    project.compare().assert_outcomes(passed=1, failed=1)
    assert len(project.requests) == 2


def test_another_device_has_another_baseline(baselined: Project) -> None:
    """A baseline of one device key is not compared with a run on another."""
    baselined.sessions = [recorded(device=H200)]
    line_with(baselined.compare(), "NO_BASELINE:", "h200-x1")
