"""The example training gives the same losses after a kill and a restart."""

import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from netpipe.watching.logs import Log
from tests.workload.conftest import many as many

SCRIPT = Path(__file__).parents[1] / "examples" / "training" / "train.py"
# Runs a script that is killed, after its workers, before it writes a line about a step.
# multiprocessing's resource tracker is left to remove their semaphores.
KILLED = """
import multiprocessing, os, runpy, signal, sys
_, step, *sys.argv = sys.argv
write = sys.stdout.write

def write_or_die(text):
    if text.startswith(step):
        for worker in multiprocessing.active_children():
            worker.kill()
        os.kill(os.getpid(), signal.SIGKILL)
    write(text)

sys.stdout.write = write_or_die
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def training_of(folder: Path, data: Path, workers: int) -> list[str]:
    """Return the command of a training for 30 steps."""
    command = [SCRIPT, "--data", data, "--out", folder, "--steps", "30", "--every=5"]
    settings = ["max_target_length=64", "global_batch_size_to_load=4"]
    return [*map(str, command), *settings, f"grain_worker_count={workers}"]


def losses_of(printed: str) -> dict[str, str]:
    """Return the printed losses by step."""
    found = (line.partition(": loss ") for line in printed.splitlines())
    return {step: loss for step, _, loss in found}


def train_until(step: str, folder: Path, data: Path) -> None:
    """Train with a worker, and kill the training before it writes the line of a step."""
    training = subprocess.run(
        [sys.executable, "-c", KILLED, step, *training_of(folder, data, workers=1)],
        stdout=subprocess.DEVNULL, env={**os.environ, "JAX_PLATFORMS": "cpu"}, check=False,
    )  # fmt: skip
    assert training.returncode == -signal.SIGKILL


def test_a_killed_training_comes_to_the_same_losses(
    many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The losses fall, and agree to nine decimals with those of a whole training."""

    def train(folder: Path, workers: int) -> dict[str, str]:
        monkeypatch.setattr(sys, "argv", training_of(folder, many, workers))
        runpy.run_path(str(SCRIPT), run_name="__main__")
        return losses_of(capsys.readouterr().out)

    whole = train(tmp_path / "whole", workers=0)
    assert list(whole) == [f"step {number}" for number in (10, 20, 30)]
    assert float(whole["step 30"]) < float(whole["step 10"])
    windows = Log(tmp_path / "whole" / "watch-0.jsonl").read()
    assert sum(window.figures.batches for window in windows) == 30
    train_until("step 20", tmp_path / "killed", many)
    resumed = train(tmp_path / "killed", workers=1)
    assert resumed == {step: whole[step] for step in ("step 20", "step 30")}
