"""Flags of pytest-benchmark and pytest-xdist with netpipe's tests."""

from dataclasses import replace

import pytest

from tests.plugin.project import LOAD_TIME, Project, line_with, lost
from tests.plugin.recorded import CPU, costly

BOUND = "--benchmark-compare-fail=mean:10%"
WORKERS = [("-nauto", "--dist=loadgroup"), ("--dist=load",)]


@pytest.mark.parametrize("compare", [(), ("--benchmark-compare",)])
def test_a_bound_of_pytest_benchmark_is_refused(project: Project, compare: tuple[str, ...]) -> None:
    """The run ends before anything is measured, with and without a comparison."""
    result = project.run(*compare, BOUND)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "ERROR: --benchmark-compare-fail")
    assert not project.requests


def test_a_renamed_benchmark_is_listed_twice(project: Project) -> None:
    """The new name has no baseline and the old one no test; both are listed, and fail if asked."""
    project.record()
    project.has(LOAD_TIME.replace("test_load_time", "test_loading"))
    result = project.compare()
    assert result.ret == pytest.ExitCode.OK
    line_with(result, "NO_BASELINE:", "cpu-testing-4/0001_first.json")
    assert lost(result) == {"test_perf.py::test_load_time"}
    assert project.compare("--netpipe-missing", "fail").ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("path", ["perf_tests", "test_perf.py", "test_perf.py::test_load_time"])
def test_a_path_is_no_run(project: Project, path: str) -> None:
    """A path after --benchmark-compare ends the run at once, with the right order."""
    (project.pytester.path / "perf_tests").mkdir()
    result = project.run("--benchmark-compare", path)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: *Run: pytest {path} --benchmark-compare"])
    result.stdout.no_fnmatch_line("*collected*")
    assert not project.requests


def test_a_path_is_no_run_for_workers_either(project: Project) -> None:
    """The refusal comes before workers are started."""
    (project.pytester.path / "perf_tests").mkdir()
    result = project.run("-n2", "--benchmark-compare", "perf_tests")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.no_fnmatch_line("*workers*")


def test_the_file_of_a_run_is_no_path_of_tests(project: Project) -> None:
    """A JSON file goes to pytest-benchmark, which compares its own tests with it."""
    project.has("def test_plain(benchmark): benchmark.pedantic(lambda: None, rounds=3)")
    project.run("--benchmark-save=second")
    stored = next((project.pytester.path / ".benchmarks").glob("*/0001_second.json"))
    result = project.run("--benchmark-compare", str(stored))
    assert result.ret == pytest.ExitCode.OK
    line_with(result, "test_plain (NOW)")


def test_a_comparison_without_benchmarks_is_silent(project: Project) -> None:
    """Tests without a benchmark run where warnings are errors and nothing is stored."""
    project.pytester.makeini("[pytest]\nfilterwarnings = error")
    project.has("def test_plain(): pass")
    result = project.run("--benchmark-compare")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1)


def test_a_profile_calls_the_benchmark_once_more(project: Project) -> None:
    """pytest-benchmark profiles a call that has no measured duration."""
    project.run("--benchmark-cprofile=tottime").assert_outcomes(passed=1)


def test_a_number_is_refused(project: Project) -> None:
    """Netpipe's tests are always compared with the latest baseline."""
    project.record()
    project.record()
    result = project.run("--benchmark-compare", "0001")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "ERROR: --benchmark-compare ", "latest baseline", "'0001'")
    assert not project.requests


@pytest.mark.parametrize("flags", WORKERS, ids=" ".join)
def test_a_regression_fails_beside_workers(
    project: Project, flags: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slower loader fails with any flag of pytest-xdist."""
    monkeypatch.setenv("PYTEST_XDIST_AUTO_NUM_WORKERS", "1")
    project.record()
    project.sessions = [costly(), costly()]
    result = project.compare(*flags)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*REGRESSED*"])


def test_a_gate_that_measured_nothing_fails(project: Project) -> None:
    """A run without a timed test fails with --netpipe-missing fail only."""
    project.has("def test_correctness(): pass")
    assert project.compare().ret == pytest.ExitCode.OK
    result = project.compare("--netpipe-missing", "fail")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["nothing was measured*"])


def test_a_baseline_of_another_device_is_refused(project: Project) -> None:
    """A baseline names its device, so a moved file is refused."""
    project.record()
    folder = project.pytester.path / "baselines"
    folder.joinpath("cpu-testing-4").rename(folder / "cpu-testing-8")
    project.device = replace(CPU, key="cpu-testing-8")
    result = project.compare()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    found = "device.key * cpu-testing-8*; found cpu-testing-4"
    result.stderr.fnmatch_lines([f"ERROR: */0001_first.json: {found}*"])
    assert not project.requests
