"""Text of users in the output of a run: on the terminal, in GitHub's log, in JUnit's XML."""

from pathlib import Path
from xml.etree import ElementTree

import pytest

from netpipe.errors import SessionError
from netpipe.plugin.run import Run
from netpipe.printable import make_printable
from tests.plugin.project import LINT, Project

HOSTILE = "a\x1b]0;title\x07b\x1b[2Jc\rd\x9be\u202ef\udcffg\0h 5%\n::error::forged"
FINDING = {
    "rule": "no-workers",
    "severity": "warning",
    "nodes": [],
    "message": HOSTILE,
    "cost": HOSTILE,
    "fix": HOSTILE,
}
ORDER = "def test_order(netpipe_lint): pass"


@pytest.fixture
def summary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Set the variables of GitHub Actions; return the path of the step summary."""
    path = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    return path


def forged(lines: list[str]) -> list[str]:
    """Return the lines that GitHub would treat as commands."""
    return [line for line in lines if line.strip().startswith("::error::")]


def test_the_error_of_a_loader_is_printable(project: Project, summary: Path) -> None:
    """The error is printable in the failure, the annotation, the step summary and the XML."""
    project.fails(SessionError(f"ValueError: {HOSTILE}"))
    result = project.run("--junitxml=junit.xml")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    text = str(result.stdout)
    assert "ValueError: a�]0;title�b" in text
    assert text == make_printable(text)
    assert not forged(result.outlines)
    assert [line for line in result.outlines if line.startswith("::error file=")]
    assert summary.read_text() == make_printable(summary.read_text())
    (failure,) = ElementTree.parse(project.pytester.path / "junit.xml").iter("failure")
    assert "a�]0;title�b" in (failure.text or "")


def test_a_finding_is_printable(project: Project, summary: Path) -> None:
    """A lint contains names, lines and reprs of the user's stages."""
    project.has(ORDER)
    project.lint = {**LINT, "findings": [FINDING]}
    result = project.run("--netpipe-report=page.html")
    text = str(result.stdout)
    assert "no-workers: a�]0;title�b" in text
    assert text == make_printable(text)
    assert not forged(result.outlines)
    assert "no-workers: a�\\]0;title�b" in summary.read_text()
    page = (project.pytester.path / "page.html").read_text(encoding="utf-8")
    assert page == make_printable(page)


def test_a_note_during_a_run_is_printable(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A progress message may contain the user's target."""
    monkeypatch.setattr(Run, "report_duration", lambda run: run.measurer.report_progress(HOSTILE))
    result = project.run()
    assert "netpipe: a�]0;title�b" in str(result.stdout)
    assert not forged(result.outlines)


def test_a_waiver_is_printable(project: Project, summary: Path) -> None:
    """The message about a waiver contains text of its file."""
    project.record()
    file = project.pytester.path / "baselines" / "waivers.toml"
    file.write_text(
        '[[waiver]]\nbenchmark = "a\\u001b]0;x\\u0007.py::b"\nmetric = "load_s_per_batch"\n'
        'bound = 2.0\nreason = "r\\u001b[2J"\nexpires = 2000-01-01\n'
    )
    result = project.compare()
    text = str(result.stdout)
    assert "a�]0;x�.py::b" in text
    assert text == make_printable(text)
    assert summary.read_text() == make_printable(summary.read_text())
