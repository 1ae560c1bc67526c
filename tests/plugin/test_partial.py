"""Recordings of some benchmarks do not remove the others from the gate."""

import json
from pathlib import Path

import pytest

from tests.plugin.project import LOAD_TIME, Project, line_with, lost
from tests.plugin.recorded import costly, recorded

OTHER = "test_other.py::test_load_time"
CARRIED = f"0002_second.json does not hold {OTHER}: {OTHER} is compared with 0001_first.json"


@pytest.fixture
def partly(project: Project) -> Project:
    """A project of two benchmarks, only one of which was recorded again."""
    project.has(LOAD_TIME, "test_other")
    project.record()
    record(project, "test_perf.py")
    return project


def record(project: Project, *arguments: str) -> None:
    """Record the benchmarks of a run with these arguments."""
    result = project.run("--netpipe-record=second", "--netpipe-sessions=3", *arguments)
    assert result.ret == pytest.ExitCode.OK
    project.requests.clear()


def benchmarks(project: Project, file: str) -> dict[str, list[int]]:
    """Return the benchmarks of a baseline, with the places of their sessions."""
    path = Path(project.pytester.path, "baselines", "cpu-testing-4", file)
    document = json.loads(path.read_text(encoding="utf-8"))
    found: dict[str, list[int]] = document["netpipe"]["benchmarks"]
    return found


def test_what_was_not_recorded_again_is_held_against_the_older_one(partly: Project) -> None:
    """A slowdown against an older baseline fails, and the file is named."""
    partly.sessions = [costly()]
    result = partly.compare("test_other.py")
    result.assert_outcomes(failed=1)
    line_with(result, "REGRESSED:", "load_cpu_ratio", "1.50 x", "0001_first.json")
    assert CARRIED in result.outlines


@pytest.mark.parametrize("deselect", [("-k", "perf"), ("--ignore=test_other.py",)], ids=" ".join)
def test_a_recording_of_a_choice_drops_nothing(project: Project, deselect: tuple[str, ...]) -> None:
    """Deselected and ignored tests do not count as removed."""
    project.has(LOAD_TIME, "test_other")
    project.record()
    record(project, *deselect)
    assert set(benchmarks(project, "0002_second.json")) == {"test_perf.py::test_load_time"}
    assert CARRIED in project.compare().outlines


def test_recording_without_the_test_lets_the_benchmark_go(partly: Project) -> None:
    """A recording that covers the deleted test ends its benchmark."""
    (partly.pytester.path / "test_other.py").unlink()
    record(partly)
    assert benchmarks(partly, "0003_second.json")[OTHER] == []
    result = partly.compare("--netpipe-missing=fail")
    assert result.ret == pytest.ExitCode.OK
    partly.has(LOAD_TIME, "test_other")
    result = partly.compare()
    line_with(result, "NO_BASELINE:", "cpu-testing-4/0003_second.json")


def test_a_changed_baseline_names_what_it_lacks(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message about a changed baseline names the benchmarks that it lacks."""
    from tests.repository import commit, git, init

    project.has(LOAD_TIME, "test_other")
    project.record()
    init(project.pytester.path)
    commit(project.pytester.path)
    git(project.pytester.path, "update-ref", "refs/remotes/origin/main", "HEAD")
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    record(project, "test_perf.py")
    project.sessions = [recorded()]
    result = project.compare("--netpipe-json=run.json")
    told = [line for line in result.outlines if OTHER in line and "was not recorded" in line]
    assert told == [line_with(result, "baseline changed: added", OTHER)]
    (change,) = project.read_json("run.json")["accepted"]["baseline_changes"]
    assert any(OTHER in difference for difference in change["differences"])


def test_a_recording_of_the_last_failures_drops_nothing(project: Project) -> None:
    """With --lf, pytest does not collect the tests of a file that passed."""
    failing = "\n    def test_other(netpipe_benchmark):\n        netpipe_benchmark({})\n"
    project.has(LOAD_TIME + failing.format("'step_s'"))
    project.record()
    project.has(LOAD_TIME + failing.format("'nonsense'"))
    project.run()
    project.has(LOAD_TIME + failing.format("'step_s'"))
    record(project, "--lf")
    assert set(benchmarks(project, "0002_second.json")) == {"test_perf.py::test_other"}
    project.has(LOAD_TIME + failing.format("'nonsense'"))
    project.run()
    assert not lost(project.compare("--lf"))
