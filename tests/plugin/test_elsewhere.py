"""A project that uses pytest-benchmark alone, with netpipe installed."""

import pytest

from tests.plugin.project import LOAD_TIME, Project

PLAIN = """
    def test_plain(benchmark):
        benchmark.pedantic(lambda: None, rounds=3)
"""


@pytest.fixture
def plain(project: Project) -> Project:
    """A project with a benchmark of pytest-benchmark's own and none of netpipe's."""
    project.has(PLAIN)
    return project


def test_no_device_is_looked_for(plain: Project) -> None:
    """A project without a test of netpipe's starts no process to find a device."""
    plain.uses(find_device=lambda: pytest.fail("looked"))
    assert plain.compare().ret == pytest.ExitCode.OK


def test_a_storage_of_ones_own_is_left_alone(project: Project) -> None:
    """A chosen --benchmark-storage is still pytest-benchmark's, beside netpipe's baselines."""
    project.has(LOAD_TIME + PLAIN)
    project.run("--benchmark-storage", "file://./mine", "--benchmark-save", "mine")
    result = project.compare("--benchmark-storage", "file://./mine")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines_random(["test_plain (NOW) *", "test_plain (0001_mine) *"])
