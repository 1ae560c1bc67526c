"""The comparisons of continuous integration, run by the commands of the workflows."""

from pathlib import Path

import pytest

from netpipe.errors import NoSuchTestError
from tests.plugin.project import HERE, LOAD_TIME, Project, line_with
from tests.plugin.recorded import costly, recorded
from tests.repository import commit, commit_files, git
from tests.root_process import ROOT
from tests.workflows import job, run_with, scripts, tox_flags

GATE = next(script for script in scripts("ci.yml") if ".ci/run" in script)
NO_COMMIT = "0" * 40


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with some commits on main, and a branch from an earlier commit."""
    folder = tmp_path / "clone"
    commit_files(folder, {".ci/run": '#!/bin/sh\nexec flags_of_ci "$@"\n'})
    (folder / ".ci" / "run").chmod(0o755)
    commit(folder, "first")
    git(folder, "switch", "--quiet", "--create", "change")
    commit(folder, "change")
    git(folder, "switch", "--quiet", "main")
    commit(folder, "second")
    git(folder, "update-ref", "refs/remotes/origin/main", "main")
    return folder


def flags(clone: Path, **variables: str) -> list[str]:
    """Return the flags that ci.yml passes to the performance tests."""
    (found,) = run_with("flags_of_ci", GATE, clone, variables)
    return found


def test_a_pull_request_is_compared_with_its_merge_base(clone: Path) -> None:
    """Later commits on main do not count."""
    git(clone, "switch", "--quiet", "change")
    found = flags(clone, GITHUB_EVENT_NAME="pull_request", GITHUB_BASE_REF="main", BEFORE="")
    first = git(clone, "rev-parse", "main^")
    assert found == [f"--netpipe-against={first}"]


def test_a_push_is_compared_with_the_version_before_it(clone: Path) -> None:
    """All commits of a push are judged together."""
    before = git(clone, "rev-parse", "main^")
    found = flags(clone, GITHUB_EVENT_NAME="push", BEFORE=before)
    assert found == [f"--netpipe-against={before}"]


@pytest.mark.parametrize("before", [NO_COMMIT, "0123456789" * 4])
def test_a_push_over_lost_commits_is_compared_with_the_parent(clone: Path, before: str) -> None:
    """A new branch, and one that was rewritten, has no version before it in the clone."""
    found = flags(clone, GITHUB_EVENT_NAME="push", BEFORE=before)
    assert found == ["--netpipe-against=HEAD^"]


@pytest.mark.parametrize(("workflow", "name"), [("ci.yml", "gate"), ("gpu.yml", "performance")])
def test_what_compares_fetches_the_whole_history(workflow: str, name: str) -> None:
    """A merge base, and the commit of a baseline, are not in a shallow clone."""
    assert "fetch-depth: 0" in job(workflow, "jobs", name)


def test_the_flags_reach_the_performance_tests(tmp_path: Path) -> None:
    """.ci/run hands its flags to `tox -e cpu`, and to nothing else."""
    programs = tmp_path / "programs"
    programs.mkdir()
    stand_ins = {
        "python3": 'if [ "$2" = venv ]; then mkdir -p "$3/bin" && touch "$3/bin/activate"; fi',
        "pip": "",
        "python": "",
    }
    for name, text in stand_ins.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    (tmp_path / "anywhere").mkdir()
    script = f"{ROOT}/.ci/run --netpipe-against='a b' --netpipe-missing=fail >/dev/null"
    lint, suite, foreign = run_with("tox", script, tmp_path / "anywhere", {})
    assert (lint, foreign) == ([], ["-e", "foreign"])
    assert _without_values(suite[:5]) == ["-e", "cpu", "--", "--netpipe-json", "--junit-xml"]
    assert suite[5:] == ["--netpipe-against=a b", "--netpipe-missing=fail"]
    _, suite, _ = run_with("tox", f"{ROOT}/.ci/run >/dev/null", tmp_path / "anywhere", {})
    assert _without_values(suite) == ["-e", "cpu", "--", "--netpipe-json", "--junit-xml"]


def _without_values(arguments: list[str]) -> list[str]:
    return [argument.partition("=")[0] for argument in arguments]


@pytest.fixture
def versioned(project: Project) -> Project:
    """A project on a machine that has no baseline, with a version before the working tree."""
    commit_files(project.pytester.path, {})
    commit(project.pytester.path)
    return project


def run_as_ci(project: Project) -> pytest.RunResult:
    """Run the command of `tox -e cpu` with the flags of ci.yml after a push."""
    folder = project.pytester.path
    (folder / ".ci").mkdir()
    (folder / ".ci" / "run").symlink_to(folder.parent / "programs" / "flags_of_ci")
    words = flags(folder, GITHUB_EVENT_NAME="push", BEFORE=NO_COMMIT)
    return project.run(*tox_flags("cpu", words))


def test_a_regression_fails_without_a_baseline(versioned: Project) -> None:
    """On any machine, a loader that costs half as much again as before the push fails."""
    versioned.sessions = [costly(), *[recorded(), costly()] * 3]
    result = run_as_ci(versioned)
    result.assert_outcomes(failed=1)
    line_with(result, "REGRESSED against HEAD^", "load_cpu_ratio", "1.50 x")


def test_a_run_that_compared_nothing_fails(versioned: Project) -> None:
    """A run without a baseline and without the test in the version before fails."""
    measured = versioned.measured

    def no_base(command, request, place=HERE, progress=None):  # type: ignore[no-untyped-def]
        if place.folder is not None:
            raise NoSuchTestError("no such test")
        return measured(command, request, place, progress)

    versioned.uses(measure=no_base)
    result = run_as_ci(versioned)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    line_with(result, "no time was judged")


def test_a_new_benchmark_passes_beside_one_that_is_compared(versioned: Project) -> None:
    """A change may add a benchmark: the version before has none, which is shown."""
    versioned.has(LOAD_TIME, "test_new")
    measured = versioned.measured

    def without_new(command, request, place=HERE, progress=None):  # type: ignore[no-untyped-def]
        if place.folder is not None and any("test_new" in word for word in command):
            raise NoSuchTestError("no such test")
        return measured(command, request, place, progress)

    versioned.uses(measure=without_new)
    result = run_as_ci(versioned)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines_random(["*PASS against HEAD^*", "NO_BASELINE against HEAD^*"])
