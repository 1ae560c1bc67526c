"""--netpipe-report: the page of a run."""

import pytest

from tests.plugin.project import Project, line_with
from tests.plugin.recorded import costly
from tests.reporting.parsed import Parsed, parsed


def page(project: Project, name: str = "run.html") -> Parsed:
    """The page that the project's run has written."""
    return parsed((project.pytester.path / name).read_text(encoding="utf-8"))


def test_the_page_has_the_gate_and_what_it_rests_on(project: Project) -> None:
    """Outcomes, the verdict, and the command that repeats it."""
    project.record()
    project.sessions = [costly()]
    project.compare("--netpipe-report", "run.html")
    found = page(project)
    assert "1 of 5 REGRESSED" in found.texts
    assert "cpu-testing-4" in found.texts
    assert "pytest --netpipe-report run.html --benchmark-compare" in found.texts


def test_an_ini_key_asks_for_the_page(project: Project) -> None:
    """A project whose ini file has it gets a page of each run."""
    project.pytester.makeini("[pytest]\nfilterwarnings = default\nnetpipe_report = all.html\n")
    project.run()
    assert "Nothing was compared" in page(project, "all.html").texts


def test_a_page_that_cannot_be_written_is_a_usage_error(project: Project) -> None:
    """The run ends before anything is measured."""
    result = project.run("--netpipe-report", "absent/run.html")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "ERROR: absent/run.html", "--netpipe-report")
    assert not project.requests


def test_a_session_writes_no_page(project: Project) -> None:
    """Sessions do not get the flag in either spelling."""
    project.run("--netpipe-report", "run.html")
    project.run("--netpipe-report=run.html")
    assert len(project.commands) == 2
    assert not any("report" in word for command in project.commands for word in command)
