"""A pull request that changes baselines is compared with those before it."""

from pathlib import Path

import pytest

from tests.plugin.project import Project, line_with
from tests.plugin.recorded import H200, costlier, costly, recorded
from tests.repository import commit, git, init

CHANGED = (
    "baseline changed: added cpu-testing-4/0002_first.json; 0001_first.json was accepted before"
)


@pytest.fixture
def pulled(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A project with a baseline on main, tested as a pull request that has no commit yet."""
    init(project.pytester.path)
    project.record()
    commit(project.pytester.path)
    git(project.pytester.path, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(project.pytester.path, "checkout", "--quiet", "-b", "feature")
    monkeypatch.setenv("GITHUB_BASE_REF", "main")
    return project


@pytest.fixture
def approving(pulled: Project) -> Project:
    """A slower pull request with a baseline that accepts it."""
    pulled.record(costlier())
    commit(pulled.pytester.path)
    pulled.sessions = [costlier()]
    return pulled


def test_nobody_approves_themselves(approving: Project) -> None:
    """The change is compared with the baseline accepted before; the summary shows the change."""
    result = approving.compare()
    result.assert_outcomes(failed=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    line_with(result, "load_cpu_ratio", " 2 ", "2.12", "1.06 x")
    line_with(result, "REGRESSED:", "load_cpu_ratio", "1.06 x", "cpu-testing-4/0001_first.json")
    line_with(result, "baselines of", "origin/main")
    line_with(result, CHANGED)


@pytest.mark.parametrize(("at", "failed"), [("here", 0), ("origin/main", 1), ("HEAD", 0)])
def test_the_commit_can_be_chosen(approving: Project, at: str, failed: int) -> None:
    """--netpipe-baselines-at takes a commit or the working tree."""
    result = approving.compare(f"--netpipe-baselines-at={at}")
    result.assert_outcomes(passed=1 - failed, failed=failed)


def test_a_baseline_that_is_gone_still_counts(pulled: Project) -> None:
    """A deleted baseline still finds a regression."""
    (pulled.pytester.path / "baselines" / "cpu-testing-4" / "0001_first.json").unlink()
    pulled.sessions = [costly()]
    result = pulled.compare()
    result.assert_outcomes(failed=1)
    said = "removed cpu-testing-4/0001_first.json, which leaves cpu-testing-4 without a baseline"
    result.stdout.fnmatch_lines([f"baseline changed: {said}"])


def test_a_baseline_of_the_same_name_is_named(pulled: Project) -> None:
    """A replaced baseline is a change too."""
    (pulled.pytester.path / "baselines" / "cpu-testing-4" / "0001_first.json").unlink()
    pulled.record(costly())
    pulled.sessions = [costly()]
    result = pulled.compare()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["baseline changed: replaced cpu-testing-4/0001_first.json*name"])


def test_another_device_s_baseline_is_named(pulled: Project) -> None:
    """A reviewer must see it, although this run is not compared with it."""
    pulled.record(recorded(device=H200))
    result = pulled.compare()
    result.assert_outcomes(passed=1)
    line_with(result, "baseline changed", "added", "h200-x1/0001_first.json", "first readable")


def test_the_change_is_json_too(approving: Project) -> None:
    """The document has the commit, the files and the figures."""
    approving.compare("--netpipe-json", "run.json")
    accepted = approving.read_json("run.json")["accepted"]
    assert accepted["commit"] == git(approving.pytester.path, "rev-parse", "main")
    (change,) = accepted["baseline_changes"]
    assert (change["change"], change["file"]) == ("added", "cpu-testing-4/0002_first.json")
    assert (change["before"], change["after"]) == ("0001_first.json", "0002_first.json")
    assert change["figures"]["load_cpu_ratio"] == {"before": 2.0, "after": 2.12, "ratio": 1.06}


def test_github_gets_a_changed_baseline(
    approving: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The file gets a warning, and the step summary has both tables."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    result = approving.compare()
    where = "file=baselines/cpu-testing-4/0002_first.json,title=baseline changed"
    assert f"::warning {where}::{CHANGED}" in result.outlines
    summary = (tmp_path / "summary.md").read_text()
    assert "| load\\_cpu\\_ratio | 2 | 2.12 | 1.06 x |" in summary
    assert "added cpu-testing-4/0002\\_first.json" in summary


def test_a_history_that_is_cut_off_is_a_usage_error(pulled: Project) -> None:
    """The message says which history to fetch, before anything is measured."""
    git(pulled.pytester.path, "update-ref", "-d", "refs/remotes/origin/main")
    result = pulled.compare()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    line_with(result, "ERROR: --netpipe-baselines-at", "fetch-depth: 0")
    assert not pulled.requests


def test_recording_writes_into_the_working_tree(pulled: Project) -> None:
    """A recording gets the next number in the working tree, wherever baselines are read."""
    pulled.record()
    pulled.record()
    assert pulled.baselines == [f"cpu-testing-4/000{number}_first.json" for number in (1, 2, 3)]


def test_a_run_without_timed_tests_needs_no_commit(pulled: Project) -> None:
    """Other tests run in a shallow clone."""
    git(pulled.pytester.path, "update-ref", "-d", "refs/remotes/origin/main")
    pulled.has("def test_plain(): pass")
    assert pulled.compare().ret == pytest.ExitCode.OK


def test_nothing_is_left_behind(
    approving: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The commit's baselines last as long as the run."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    approving.compare()
    assert list(tmp_path.glob("netpipe-*")) == []
