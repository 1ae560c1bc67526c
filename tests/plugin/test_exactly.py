"""pytest-benchmark's own behaviour, and netpipe's where it differs.

The controls run a plain benchmark without netpipe, to notice when pytest-benchmark changes.
"""

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from pytest_benchmark.logger import PytestBenchmarkWarning

from tests.plugin.project import LOAD_TIME, Project, line_with, lost
from tests.plugin.recorded import CPU, costly

# A project without netpipe, on a clock that only the benchmark moves.
PLAIN = """
    import pytest

    class Clock:
        now_s = 0.0

        def __call__(self):
            return self.now_s

        def work(self):
            self.now_s += SECONDS

    CLOCK = Clock()

    @pytest.mark.benchmark(timer=CLOCK)
    def test_load_time(benchmark):
        benchmark.pedantic(CLOCK.work, rounds=3)
"""
BOUND = "--benchmark-compare-fail=mean:10%"
WORKERS = [("-nauto",), ("-n1", "--dist=loadgroup"), ("--dist=load",)]


class Plain:
    """A project with pytest-benchmark alone, whose benchmark takes a given time."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self.path = project.pytester.path
        self.takes("1")

    def takes(self, seconds: str, of: str = "test_load_time") -> None:
        """Set the benchmark's time and name."""
        text = PLAIN.replace("SECONDS", seconds).replace("test_load_time", of)
        self._project.has(text)

    def run(self, *arguments: str) -> pytest.RunResult:
        """Run pytest without netpipe."""
        return self._project.run("-p", "no:netpipe", *arguments)

    def warned(self, words: str, *arguments: str) -> pytest.RunResult:
        """Run pytest without netpipe, and expect a warning."""
        with pytest.warns(PytestBenchmarkWarning, match=words):
            return self.run(*arguments)


@pytest.fixture
def plain(project: Project) -> Plain:
    """A project with pytest-benchmark alone, one run stored, and then slowed ten times."""
    plain = Plain(project)
    assert plain.run("--benchmark-save=first").ret == pytest.ExitCode.OK
    plain.takes("10.0")
    return plain


@pytest.fixture
def unstored(project: Project) -> Plain:
    """A project with pytest-benchmark alone and no run stored."""
    return Plain(project)


def test_control_no_baseline(unstored: Plain) -> None:
    """It only warns without a run to compare with; with a bound too, it fails after measuring."""
    result = unstored.warned("Can't compare. No benchmark files", "--benchmark-compare")
    assert result.ret == pytest.ExitCode.OK
    result = unstored.warned("Can't compare", "--benchmark-compare", BOUND)
    result.stdout.fnmatch_lines(["*benchmark: 1 tests*"])
    assert "UsageError: --benchmark-compare-fail" in str(result.stderr)


def test_control_renamed(plain: Plain) -> None:
    """A slower benchmark passes under another name, and nothing misses the old one."""
    plain.takes("10.0", of="test_loading")
    result = plain.run("--benchmark-compare", BOUND)
    assert result.ret == pytest.ExitCode.OK
    assert "test_load_time" not in str(result.stdout)


def test_control_regression(plain: Plain) -> None:
    """A regression is an uncaught exception, and JUnit has no failure."""
    result = plain.run("--benchmark-compare", BOUND, "--junitxml=run.xml")
    assert "PerformanceRegression:" in str(result.stderr)
    (suite,) = ElementTree.parse(plain.path / "run.xml").iter("testsuite")
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "0")


@pytest.mark.parametrize("bound", ["mean:2.5%", "ops:10%", "rounds:1"])
def test_control_bounds(plain: Plain, bound: str) -> None:
    """A bound is a whole percentage of a time."""
    result = plain.run("--benchmark-compare", f"--benchmark-compare-fail={bound}")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize(
    "flag",
    ["--benchmark-disable", "--benchmark-skip", "--benchmark-compare-fail=mean:5000%", "-n1"],
    ids=["disabled", "skipped", "a second bound", "workers"],
)
def test_control_passes(plain: Plain, flag: str) -> None:
    """A benchmark ten times slower passes with these flags."""
    assert plain.run("--benchmark-compare", BOUND, flag).ret == pytest.ExitCode.OK


def test_control_warnings(plain: Plain) -> None:
    """It passes with a warning for a path as a run, for --dist, and for another machine."""
    plain.warned("match 'perf_tests'", "--benchmark-compare", "perf_tests")
    result = plain.warned("because xdist", "--benchmark-compare", BOUND, "--dist=load")
    assert result.ret == pytest.ExitCode.OK
    plain.takes("1")
    hook = "def pytest_benchmark_generate_machine_info(): return {'cpu': {'brand_raw': 'Other'}}"
    (plain.path / "conftest.py").write_text(hook)
    result = plain.warned("machine_info is different", "--benchmark-compare", BOUND)
    assert result.ret == pytest.ExitCode.OK


@pytest.mark.parametrize("compare", [(), ("--benchmark-compare",)])
def test_a_bound_of_pytest_benchmark_is_refused(project: Project, compare: tuple[str, ...]) -> None:
    """Before anything is measured, with or without a baseline and a comparison."""
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
    """A path behind --benchmark-compare ends the run at once, with the right order."""
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


def test_a_run_called_like_a_path(plain: Plain, project: Project) -> None:
    """A run that pytest-benchmark finds under that name goes before a folder of that name."""
    plain.run("--benchmark-save=second")
    stored = next((plain.path / ".benchmarks").glob("*/0002_second.json"))
    stored.rename(stored.with_name("perf_tests.json"))
    (plain.path / "perf_tests").mkdir()
    result = project.run("--benchmark-compare", "perf_tests")
    assert result.ret == pytest.ExitCode.OK
    line_with(result, "test_load_time (NOW)")


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
