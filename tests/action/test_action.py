"""The Action refuses planted changes of a project, and accepts an honest one."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.plugin.project import leave_xdist
from tests.repository import commit_files, git
from tests.root_process import ROOT

COMPARE = ROOT / ".github" / "action" / "compare"
COMMENT = ROOT / ".github" / "action" / "comment"

takes_minutes = pytest.mark.skipif(
    os.environ.get("TOX_ENV_NAME") != "action", reason="tox -e action runs this test"
)

PIPELINE = """
import numpy as np

class Batches:
    def __init__(self):
        self.position = 0

    def __iter__(self):
        return self

    def __next__(self):
        if self.position == 200:
            raise StopIteration
        self.position += 1
        rng = np.random.default_rng(self.position)
        return {"tokens": np.sort(rng.integers(0, 1000, (16, 512)))}

    def get_state(self):
        return self.position

    def set_state(self, position):
        self.position = position

def batches():
    return Batches()
"""
TESTS = """
import pytest
from pipeline import batches

@pytest.fixture
def netpipe_loader():
    return batches

def test_work(netpipe_work):
    netpipe_work.compare()
"""
SORT = "np.sort(rng.integers(0, 1000, (16, 512)))"
CHANGES = {
    "refactored": f"{SORT[:-1]}, axis=-1)",
    "slower": f"[{SORT} for _ in range(20)][0]",
    "other data": SORT.replace("1000", "999"),
}


@dataclass(frozen=True)
class Run:
    """The exit code, the outputs and the summary of the step."""

    code: int
    outputs: dict[str, str]
    summary: str
    log: str


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A project with a committed pipeline and a test."""
    folder = tmp_path / "project"
    folder.mkdir()
    commit_files(folder, {"pipeline.py": PIPELINE, "perf/test_pipeline.py": TESTS})
    return folder


def compare(folder: Path, **inputs: str) -> Run:
    """Run the step that compares, with these inputs."""
    place = folder.parent
    files = {name: place / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
    for path in files.values():
        path.write_text("")
    given = {"ACCELERATOR": "", "BASE": "HEAD", "FAIL_ON": "regressed", "LOADER": "", "STEP": "",
             "TESTS": "", **inputs}  # fmt: skip
    paths = {"NETPIPE": ROOT, "REPORT": place / "report", "PYTHONPATH": folder, **files}
    environment = {**os.environ, **given, **{name: str(path) for name, path in paths.items()}}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [COMPARE], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    written = files["GITHUB_OUTPUT"].read_text().splitlines()
    outputs = dict(line.split("=", 1) for line in written)
    summary = files["GITHUB_STEP_SUMMARY"].read_text()
    return Run(done.returncode, outputs, summary, done.stdout + done.stderr)


def change(folder: Path, name: str) -> None:
    """Change the pipeline in the working tree."""
    (folder / "pipeline.py").write_text(PIPELINE.replace(SORT, CHANGES[name]))


@takes_minutes
@pytest.mark.parametrize(
    ("name", "code", "verdicts", "text"),
    [
        # On a busy machine, the times may decide nothing.
        ("refactored", 0, {"ACCEPTED", "UNDECIDED"}, "| data | IDENTICAL |"),
        ("slower", 1, {"REFUSED"}, "### REFUSED: faster"),
        ("other data", 1, {"REFUSED"}, "### REFUSED: data"),
    ],
)
def test_a_loader_is_judged(
    repository: Path, name: str, code: int, verdicts: set[str], text: str
) -> None:
    """The table of the questions is in the summary, and the outputs have the verdict."""
    change(repository, name)
    run = compare(repository, LOADER="pipeline.py:batches")
    assert run.code == code, run.log
    assert run.outputs["verdict"] in verdicts
    assert run.outputs["regressed"] == str(code == 1).lower()
    assert text in run.summary
    report = Path(run.outputs["report"])
    judgement = json.loads((report / "judgement.json").read_text())
    assert judgement["verdict"] == run.outputs["verdict"]


@takes_minutes
def test_tests_are_compared(repository: Path) -> None:
    """More work fails the tests that are run side by side; the page and JUnit's file are kept."""
    change(repository, "slower")
    run = compare(repository, TESTS="perf")
    assert (run.code, run.outputs["verdict"]) == (1, "REFUSED"), run.log
    assert {"run.json", "report.html", "junit.xml", "summary.md"} <= {
        path.name for path in Path(run.outputs["report"]).iterdir()
    }
    assert "REGRESSED" in run.summary


@pytest.mark.parametrize(
    ("inputs", "text"),
    [
        ({}, "tests or loader must be given"),
        ({"TESTS": "perf", "FAIL_ON": "never"}, "fail-on must be regressed or undecided"),
        ({"TESTS": "perf", "BASE": ""}, "fetch-depth: 0, or give base"),
        ({"TESTS": "absent", "BASE": "HEAD"}, "netpipe ab gave no result"),
        ({"LOADER": "pipeline.py:absent"}, "netpipe judge gave no result"),
    ],
)
def test_wrong_inputs_are_errors(repository: Path, inputs: dict[str, str], text: str) -> None:
    """No input is guessed, and a command without a result is not accepted."""
    run = compare(repository, **inputs)
    assert run.code == 2
    assert text in run.log
    assert "verdict" not in run.outputs


# What bash calls instead of the command of this name.
FAKE = """() {
    echo '{}' >"$REPORT/run.json"
    printf %s "$JUNIT" >"$REPORT/junit.xml"
    return 1
}"""


@pytest.mark.parametrize(
    ("junit", "code", "verdict"),
    [
        ("<testsuites><failure/></testsuites>", 1, "REFUSED"),
        ("<testsuites></testsuites>", 0, "UNDECIDED"),
        ("<testsuites>", 2, None),
        ("", 2, None),
    ],
)
def test_a_failed_run_is_refused_only_for_a_failed_test(
    repository: Path, junit: str, code: int, verdict: str | None
) -> None:
    """An unfinished test report does not count as a result."""
    inputs = {"TESTS": "perf", "JUNIT": junit, "BASH_FUNC_netpipe%%": FAKE}
    run = compare(repository, **inputs)
    assert (run.code, run.outputs.get("verdict")) == (code, verdict)


@takes_minutes
def test_a_new_test_is_undecided(repository: Path) -> None:
    """The base does not have it, so it was not compared, although the others were."""
    change(repository, "refactored")
    new = "\ndef test_new_work(netpipe_work):\n    netpipe_work.compare()\n"
    (repository / "perf" / "test_pipeline.py").write_text(TESTS + new)
    run = compare(repository, TESTS="perf")
    assert (run.code, run.outputs["verdict"]) == (0, "UNDECIDED"), run.log


@takes_minutes
def test_a_run_that_fails_without_a_failed_test_is_undecided(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The only test of times is new, so no time was judged, which fails the run of pytest."""
    leave_xdist(monkeypatch)
    change(repository, "refactored")
    new = "\ndef test_new_time(netpipe_benchmark):\n    netpipe_benchmark('load_s_per_batch')\n"
    (repository / "perf" / "test_pipeline.py").write_text(TESTS + new)
    run = compare(repository, TESTS="perf", ACCELERATOR="emulated:30ms")
    assert (run.code, run.outputs["verdict"]) == (0, "UNDECIDED"), run.log


def test_a_commit_is_not_compared_with_itself(repository: Path) -> None:
    """After a merge, the merge base with the target branch is the commit itself."""
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    run = compare(repository, TESTS="perf", BASE="", GITHUB_BASE_REF="")
    assert run.code == 2
    assert "nothing to compare" in run.log
    assert "No result: this commit is in its target branch" in run.summary


def test_a_failing_test_is_not_undecided(repository: Path) -> None:
    """A test without a comparison may fail too."""
    test = "def test_wrong():\n    assert False\n"
    (repository / "perf" / "test_pipeline.py").write_text(test)
    run = compare(repository, TESTS="perf")
    assert (run.code, run.outputs["verdict"]) == (1, "REFUSED"), run.log


@takes_minutes
def test_an_undecided_change_fails_only_if_asked(repository: Path) -> None:
    """Whether an endless loader lost elements cannot be compared."""
    endless = PIPELINE.replace("self.position == 200", "False")
    commit_files(repository, {"pipeline.py": endless})
    (repository / "pipeline.py").write_text(endless.replace(SORT, CHANGES["refactored"]))
    for fail_on, code in (("regressed", 0), ("undecided", 1)):
        run = compare(repository, LOADER="pipeline.py:batches", FAIL_ON=fail_on)
        assert (run.code, run.outputs["verdict"]) == (code, "UNDECIDED"), run.log
        assert "complete | NOT_COMPARED" in run.summary


def test_the_page_has_every_input_and_output() -> None:
    """The tables of the documentation name what action.yml declares, in the same order."""
    interface = (ROOT / "action.yml").read_text().partition("\nruns:")[0]
    declared = re.findall(r"^  ([a-z-]+):$", interface, re.MULTILINE)
    named = re.findall(r"^\| `([a-z-]+)` \|", (ROOT / "docs/action.md").read_text(), re.MULTILINE)
    assert named == declared


def test_a_comment_is_replaced(tmp_path: Path) -> None:
    """The first run writes a comment, and later runs write the same one."""
    (tmp_path / "summary.md").write_text("### REFUSED: data\n")
    calls = tmp_path / "calls"
    (tmp_path / "gh").write_text(
        f'#!/bin/sh\necho "$@" >> {calls}\ncase "$*" in *--jq*) cat {tmp_path}/known;; esac\n'
    )
    (tmp_path / "gh").chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "REPORT": str(tmp_path),
        "NAME": "netpipe", "NUMBER": "7", "GITHUB_REPOSITORY": "a/b", "GITHUB_SHA": "123",
        "GITHUB_RUN_ID": "9", "GITHUB_SERVER_URL": "https://github.com",
    }  # fmt: skip
    for known, words in (("", "--method POST repos/a/b/issues/7/comments"),
                         ("42\n", "--method PATCH repos/a/b/issues/comments/42")):  # fmt: skip
        (tmp_path / "known").write_text(known)
        subprocess.run([COMMENT], env=environment, check=True)
        assert words in calls.read_text().splitlines()[-1]
    assert "### REFUSED: data" in (tmp_path / "comment.md").read_text()
