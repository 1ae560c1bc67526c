"""What netpipe is for, from end to end: a fault that is put in is named."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from netpipe.data.synthetic import generate
from tests.root_process import ROOT, run_module

# Loading takes half of a step of 60 ms: read late, a loss costs nothing; read at once, it makes
# a step take 90 ms.
EAGER_READER = """
import time
import numpy as np

def loader():
    while True:
        time.sleep(0.03)
        yield {"x": np.zeros((2, 4), np.int32)}

def loop(batches, state, step):
    for batch in batches:
        state, aux = step(state, batch)
        float(aux["loss"])
"""


def measured_kind(target: Path) -> str:
    """Measure the loader and the loop of a file; return the kind of the verdict."""
    measured = run_module(
        "netpipe", "measure", "--loader", f"{target}:loader", "--loop", f"{target}:loop",
        "--accelerator", "emulated:60ms", "--budget", "3", "--json",
    )  # fmt: skip
    assert measured.returncode in (1, 3), measured.stderr
    kind: str = json.loads(measured.stdout)["verdict"]["kind"]
    return kind


def test_a_loss_read_every_step_is_a_forced_sync(tmp_path: Path) -> None:
    """A loop that reads each loss at once is told so."""
    target = tmp_path / "eager_reader.py"
    target.write_text(EAGER_READER)
    # Once more, should something else have taken the machine.
    assert any(measured_kind(target) == "forced-sync" for _ in range(2))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a copy of this repository to put faults in, with a little data."""
    for name in ("netpipe", "fixtures", "perf_tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("conftest.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    generate(tmp_path / "data", probes=30)
    return tmp_path


def put_in(path: Path, right: str, wrong: str) -> None:
    """Replace a text that a file holds once."""
    text = path.read_text()
    assert text.count(right) == 1, f"{path} must hold once: {right}"
    path.write_text(text.replace(right, wrong))


def perf_tests_of(project: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run performance tests of the copy."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words, "-p", "no:cacheprovider",
         "--netpipe-data", "data", "--netpipe-budget", "2"],
        cwd=project,
        env={**environment, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(project)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


NO_STEP = """

@pytest.fixture
def netpipe_step():
    return None
"""


def test_a_slow_sampler_fails_loading(project: Path) -> None:
    """A pipeline that became slow fails with how long loading takes."""
    put_in(
        project / "netpipe" / "data" / "sampler.py",
        "    block = drawn_from.block\n    # A column",
        "    __import__('time').sleep(0.05)\n    block = drawn_from.block\n    # A column",
    )
    # Without a step to stand in for, and without workers: less to start.
    conftest = project / "perf_tests" / "conftest.py"
    conftest.write_text(conftest.read_text() + NO_STEP)
    (project / "alone.toml").write_text("[pipeline]\nworkers = 0\n")
    suite = perf_tests_of(project, "perf_tests/test_emulated.py", "--netpipe-config", "alone.toml")
    assert suite.returncode == pytest.ExitCode.TESTS_FAILED, suite.stdout
    assert "loader too slow: loading a batch takes" in suite.stdout


def test_a_batch_behind_the_workers_fails_the_order(project: Path) -> None:
    """A pipeline whose main process does the batching fails with the rule that it breaks."""
    pipeline = project / "netpipe" / "data" / "pipeline.py"
    batch = ".batch(blocks_per_batch, batch_fn=concatenate)"
    put_in(pipeline, f"        {batch}\n", "")
    workers = "grain.MultiprocessingOptions(config.workers, config.worker_buffer_batches)\n    )"
    put_in(pipeline, workers, workers + batch)
    suite = perf_tests_of(project, "perf_tests/test_order.py")
    assert suite.returncode == pytest.ExitCode.TESTS_FAILED, suite.stdout
    assert "order: batch-after-mp-prefetch:" in suite.stdout
