"""`netpipe ab` in real sessions: each version runs its own code."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.repository import commit_files, git, worktrees
from tests.root_process import ROOT

_ROWS = "rows.py"
_COLUMNS = "src/inner/__init__.py"
_PROJECT = {
    "pytest.ini": "[pytest]\n",
    "perf_tests/conftest.py": """
import os
import time
from pathlib import Path

import inner
import numpy as np
import pytest
import rows
from netpipe.verdict.kinds import Verdict

Verdict.passes = lambda *_: True  # The verdict does not matter here: measure once.


def batches():
    Path(os.environ["LOADED"], f"{rows.ROWS} {inner.COLUMNS}").touch()
    while True:
        time.sleep(rows.ROWS * inner.COLUMNS / 4000)
        yield np.zeros((rows.ROWS, inner.COLUMNS), np.int8)


@pytest.fixture
def netpipe_loader():
    return batches
""",
    "perf_tests/test_load.py": """
def test_load(netpipe_benchmark):
    netpipe_benchmark("load_s_per_batch")
""",
}


def version(number: int) -> dict[str, str]:
    """A flat module and a package in src that both report their version."""
    return {_ROWS: f"ROWS = {number}", _COLUMNS: f"COLUMNS = {number}"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two committed versions, and a third one in the working tree."""
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "loaded").mkdir()
    commit_files(folder, _PROJECT | version(10))
    commit_files(folder, version(20))
    for name, text in version(30).items():
        (folder / name).write_text(text)
    return folder


def ab(project: Path, *path: Path) -> "subprocess.CompletedProcess[str]":
    """Compare the last two commits, with some folders on PYTHONPATH."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    variables = {"JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join(map(str, path))}
    variables["LOADED"] = str(project.parent / "loaded")
    results = project.parent / "run.json"
    return subprocess.run(
        [sys.executable, "-m", "netpipe", "ab", "HEAD~1", "HEAD", "--netpipe-accelerator",
         "emulated:5ms", "--netpipe-budget", "1", "--netpipe-json", str(results)],
        cwd=project, env={**kept, **variables}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_each_version_runs_its_own_code(project: Path, tmp_path: Path) -> None:
    """The two commits are timed, each with its own files, and not the working tree."""
    done = ab(project, ROOT, project, project / "src")
    assert done.returncode == 3, done.stdout + done.stderr  # too few slices in half a second
    found = json.loads((tmp_path / "run.json").read_text())["against"]
    assert found["commit"] == git(project, "rev-parse", "HEAD~1")
    assert {path.name for path in (tmp_path / "loaded").iterdir()} == {"10 10", "20 20"}
    for duet in found["duets"]:
        # Only the second version waits this long, so the other one was the first.
        assert min(duet["now"]["load_s_per_batch"]) >= 0.1
    assert "runs its own checkout" in done.stdout
    assert worktrees(project) == 1


def test_an_installed_copy_is_not_compared_with_itself(project: Path, tmp_path: Path) -> None:
    """A src layout that was installed non-editable ends in an error that names copy and source."""
    shutil.copytree(project / "src", tmp_path / "site-packages")
    done = ab(project, ROOT, project, tmp_path / "site-packages")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "src/inner/__init__.py" in done.stdout
    assert f"found {tmp_path}/site-packages/inner/__init__.py" in done.stdout
    assert not json.loads((tmp_path / "run.json").read_text())["against"]["duets"]
