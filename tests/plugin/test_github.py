"""GitHub Actions: annotations for failures, and the step summary."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.plugin.project import Project, line_with
from tests.plugin.recorded import recorded


@pytest.fixture
def summary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Make runs act as steps of GitHub Actions; return the step summary."""
    path = tmp_path / "step summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    return path


@pytest.fixture
def regressed(project: Project, summary: Path) -> Project:
    """A project whose load time became five times its baseline's."""
    project.record()
    summary.unlink()
    project.sessions = [recorded(load_s=0.05)]
    return project


def commands(result: pytest.RunResult) -> list[str]:
    """Return the workflow commands that a run printed."""
    return [line for line in result.outlines if line.startswith("::")]


def test_a_regression_is_shown_at_its_line(regressed: Project) -> None:
    """One annotation has the test's file, line and name, and the whole message on one line."""
    (command,) = commands(regressed.compare())
    where, message = command.removeprefix("::error ").split("::", 1)
    assert where == "file=test_perf.py,line=1,title=test_load_time"
    first, *others = message.split("%0A")
    assert first.startswith("REGRESSED: load_s_per_batch is 5.00 x")
    assert "cpu-testing-4/0001_" in first
    assert others


def test_paths_begin_at_the_repository(regressed: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The root of the tests may be a folder of it."""
    folder = regressed.pytester.path
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder.parent))
    (command,) = commands(regressed.compare())
    assert command.startswith(f"::error file={folder.name}/test_perf.py,line=1,")
    # The tests of another version run outside the repository.
    monkeypatch.setenv("GITHUB_WORKSPACE", str(folder / "elsewhere"))
    (command,) = commands(regressed.compare())
    assert command.startswith("::error file=test_perf.py,line=1,")


def test_what_was_not_compared_is_a_warning(project: Project, summary: Path) -> None:
    """Each metric has an annotation and an item of the summary, and the run passes."""
    project.record()
    project.sessions = [replace(recorded(), fingerprint="other data")]
    result = project.compare()
    assert result.ret == pytest.ExitCode.OK
    cost, *others = commands(result)
    assert len(others) == 4
    where, message = cost.removeprefix("::warning ").split("::", 1)
    assert where == "file=test_perf.py,title=test_load_time"
    assert message.startswith("NOT_COMPARED: load_cpu_ratio cannot be compared")
    assert "cpu-testing-4/0001_" in message
    assert "- NOT\\_COMPARED: load\\_cpu\\_ratio cannot be compared" in summary.read_text()


@pytest.mark.parametrize("flag", ["--benchmark-skip", "-knothing"])
def test_the_summary_says_that_nothing_was_compared(
    project: Project, summary: Path, flag: str
) -> None:
    """The summary says why a run failed without a failed test."""
    project.record()
    project.compare(flag)
    assert "- nothing was compared" in summary.read_text()


def test_messages_keep_their_lines_and_signs(project: Project, summary: Path) -> None:
    """Line breaks and percent signs are escaped, and in names commas and colons too."""
    project.has(
        """
        import pytest

        @pytest.mark.parametrize("of", ["a:b,c%"])
        def test_limits(netpipe_measurement, of):
            pytest.fail("5% too slow\\nnext: fewer", pytrace=False)
        """
    )
    (command,) = commands(project.run())
    assert command.endswith("title=test_limits[a%3Ab%2Cc%25]::5%25 too slow%0Anext: fewer")
    assert summary.is_file()


def test_other_tests_are_not_ours_to_tell_of(project: Project, summary: Path) -> None:
    """A failed test without netpipe gets no annotation."""
    project.has("def test_plain(): assert False")
    assert commands(project.run()) == []
    assert not summary.exists()


def test_the_step_summary_holds_the_tables(regressed: Project, summary: Path) -> None:
    """The tables of the terminal are appended as Markdown."""
    summary.write_text("before\n")
    regressed.compare()
    lines = summary.read_text().splitlines()
    assert lines[:2] == ["before", "## netpipe"]
    assert "| device | load L | step S0 |" in summary.read_text()
    assert "| cpu-testing-4 | 50 ms | 30 ms |" in summary.read_text()
    assert "| test\\_load\\_time | load\\_s\\_per\\_batch | 5.00 x | REGRESSED |" in lines
    assert [line for line in lines if line.startswith("- REGRESSED: ")]


@pytest.mark.parametrize("place", ["absent/summary.md", "", "/dev/full"])
def test_a_summary_that_cannot_be_written_is_a_warning(
    project: Project, summary: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """The exit code stays the same, and a warning names the variable."""
    path = summary.parent / place
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(path))
    result = project.run()
    assert result.ret == pytest.ExitCode.OK
    line_with(result, "warning: ", str(path), "GITHUB_STEP_SUMMARY")
    project.has("def test_fails(netpipe_measurement): assert False")
    assert project.run().ret == pytest.ExitCode.TESTS_FAILED
