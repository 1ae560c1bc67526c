"""Benchmarks that a baseline holds and no test has any more."""

import pytest

from tests.plugin.project import LOAD_TIME, Project, lost

STEP_TIME = """
    def test_step_time(netpipe_benchmark):
        netpipe_benchmark("step_s")
"""
LOST = {"test_perf.py::test_step_time"}
BOTH = LOST | {"test_perf.py::test_load_time"}


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
def test_a_lost_benchmark_is_listed_and_fails_where_asked(
    baselined: Project, policy: str, code: int
) -> None:
    """A stored benchmark whose test is gone is named, and fails the run with `fail` only."""
    baselined.has(LOAD_TIME)
    result = baselined.compare("--netpipe-missing", policy)
    result.assert_outcomes(passed=2)
    assert result.ret == code
    assert lost(result) == LOST


def test_a_file_that_is_gone_loses_its_benchmarks(baselined: Project) -> None:
    """A stored benchmark whose whole file is gone is lost too."""
    (baselined.pytester.path / "test_perf.py").unlink()
    result = baselined.compare("--netpipe-missing", "fail")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert lost(result) == BOTH


@pytest.mark.parametrize(
    "choice",
    [("-k", "load_time"), ("test_other.py",), ("test_perf.py::test_load_time",)],
    ids=["k", "other file", "node id"],
)
def test_what_was_not_chosen_is_not_lost(baselined: Project, choice: tuple[str, ...]) -> None:
    """A benchmark that was deselected, or lies in a file that was not run, is not lost."""
    result = baselined.compare(*choice, "--netpipe-missing", "fail")
    assert result.ret == pytest.ExitCode.OK
    assert not lost(result)


def test_the_last_benchmark_can_be_lost(baselined: Project) -> None:
    """When no benchmark is left to compare, the stored ones are lost all the same."""
    measuring = "def test_measured(netpipe_measurement): pass"
    baselined.has(measuring)
    baselined.has(measuring, "test_other")
    result = baselined.compare("--netpipe-missing", "fail")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert lost(result) == BOTH | {"test_other.py::test_load_time"}


@pytest.mark.parametrize(
    "left",
    [
        "@pytest.mark.skip\n    def test_step_time(netpipe_benchmark): pass",
        "def test_step_time(): pass",
    ],
    ids=["skipped", "emptied"],
)
def test_a_test_that_benchmarks_no_more_loses_its_benchmark(baselined: Project, left: str) -> None:
    """A test of the name is not enough: the stored benchmark must have been produced."""
    baselined.has(f"\n    import pytest\n{LOAD_TIME}\n    {left}\n")
    result = baselined.compare("--netpipe-missing", "fail")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert lost(result) == LOST
