"""SIGTERM and SIGHUP during a run."""

import signal
from textwrap import dedent

import pytest

from tests.plugin.project import CONFTEST, Project

SENDING = """
def {hook}():
    import signal
    signal.raise_signal(signal.{name})
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_measuring_run_ends(project: Project, name: str) -> None:
    """The tests that are left are not run, and the exit code names the signal."""
    project.pytester.makeconftest(
        dedent(CONFTEST) + SENDING.format(hook="pytest_runtest_teardown", name=name)
    )
    assert project.run("--netpipe-json", "run.json").ret == 128 + signal.Signals[name]
    assert (project.pytester.path / "run.json").exists()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_finishing_run_finishes(project: Project, name: str) -> None:
    """Every output is written, and the exit code is that of the tests."""
    project.pytester.makeconftest(
        dedent(CONFTEST) + SENDING.format(hook="pytest_terminal_summary", name=name)
    )
    result = project.run("--junitxml", "junit.xml")
    assert result.ret == pytest.ExitCode.OK
    result.assert_outcomes(passed=1)
    assert (project.pytester.path / "junit.xml").exists()
