"""A copy of this repository for planted faults."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from netpipe.workload.preparation.synthetic import generate
from tests.root_process import ROOT


def copied_project(folder: Path) -> Path:
    """Copy the files for the performance tests into a folder, with a little data."""
    for name in ("netpipe", "fixtures", "perf_tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    generate(folder / "data", probes=30)
    return folder


def put_in(path: Path, right: str, wrong: str) -> None:
    """Replace a text that occurs once in a file."""
    text = path.read_text()
    assert text.count(right) == 1, f"{path} must hold once: {right}"
    path.write_text(text.replace(right, wrong))


def perf_tests_of(project: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run performance tests of the copy."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider",
         "--netpipe-data", "data", "--netpipe-budget", "2", *words],
        cwd=project,
        env={**environment, "COLUMNS": "200", "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(project)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
