"""Benchmarks that a baseline holds and that no test produces."""

from textwrap import dedent

import pytest

from tests.plugin.project import CONFTEST, LOAD_TIME, Project, lost

STEP_TIME = """
    def test_step_time(netpipe_benchmark):
        netpipe_benchmark("step_s")
"""
LOST = {"test_perf.py::test_step_time"}


@pytest.fixture
def baselined(project: Project) -> Project:
    """A project with a baseline of two benchmarks in one file and one in another."""
    project.has(LOAD_TIME + STEP_TIME)
    project.has(LOAD_TIME, "test_other")
    project.record()
    return project


@pytest.mark.parametrize(
    ("policy", "code"), [("warn", pytest.ExitCode.OK), ("fail", pytest.ExitCode.TESTS_FAILED)]
)
def test_a_lost_benchmark_is_listed_and_fails_if_asked(
    baselined: Project, policy: str, code: int
) -> None:
    """A stored benchmark without a test is named, and fails the run with `fail` only."""
    baselined.has(LOAD_TIME)
    result = baselined.compare("--netpipe-missing", policy)
    result.assert_outcomes(passed=2)
    assert result.ret == code
    assert lost(result) == LOST


@pytest.mark.parametrize(
    "choice",
    [("-k", "load_time"), ("test_other.py",), ("test_perf.py::test_load_time",)],
    ids=["k", "other file", "node id"],
)
def test_benchmarks_that_were_not_chosen_are_not_lost(
    baselined: Project, choice: tuple[str, ...]
) -> None:
    """Benchmarks that were deselected, or whose file was not run, are not lost."""
    result = baselined.compare(*choice, "--netpipe-missing", "fail")
    assert result.ret == pytest.ExitCode.OK
    assert not lost(result)


@pytest.mark.parametrize(
    "left",
    [
        "@pytest.mark.skip\n    def test_step_time(netpipe_benchmark): pass",
        "def test_step_time(): pass",
    ],
    ids=["skipped", "emptied"],
)
def test_a_test_without_its_benchmark_loses_it(baselined: Project, left: str) -> None:
    """A test of the same name is not enough."""
    baselined.has(f"\n    import pytest\n{LOAD_TIME}\n    {left}\n")
    result = baselined.compare("--netpipe-missing", "fail")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert lost(result) == LOST


@pytest.mark.parametrize("flags", [("--benchmark-compare",), ("--netpipe-record", "second")])
def test_an_aborted_run_keeps_its_exit_code(baselined: Project, flags: tuple[str, ...]) -> None:
    """CI can tell a run that was aborted from one that failed."""
    hook = "\ndef pytest_runtest_setup():\n    pytest.exit('enough', returncode=7)\n"
    baselined.pytester.makeconftest(dedent(CONFTEST) + hook)
    assert baselined.run(*flags, "--netpipe-missing", "fail").ret == 7
