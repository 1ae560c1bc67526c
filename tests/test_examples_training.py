"""The example training gives the same losses after a kill and a restart."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.workload.conftest import many as many

SCRIPT = Path(__file__).parents[1] / "examples" / "training" / "train.py"


def train(folder: Path, data: Path, until: str = "") -> dict[str, str]:
    """Train for 40 steps; return the losses by step. With `until`, kill it after that step."""
    command = [sys.executable, SCRIPT, "--data", data, "--out", folder, "--steps", "40"]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    losses = {}
    with subprocess.Popen(
        [*map(str, command), "--every=5", "grain_worker_count=1"],
        stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True,
    ) as training:  # fmt: skip
        assert training.stdout is not None
        for line in training.stdout:
            step, _, loss = line.strip().partition(": loss ")
            losses[step] = loss
            if step == until:
                os.killpg(training.pid, signal.SIGKILL)
    assert training.returncode == (-signal.SIGKILL if until else 0)
    return losses


def test_a_killed_training_comes_to_the_same_losses(many: Path, tmp_path: Path) -> None:
    """The losses agree to nine decimals, and fall."""
    whole = train(tmp_path / "whole", many)
    assert list(whole) == [f"step {number}" for number in (10, 20, 30, 40)]
    assert float(whole["step 40"]) < float(whole["step 10"])
    train(tmp_path / "killed", many, until="step 20")
    resumed = train(tmp_path / "killed", many)
    assert {"step 30", "step 40"} <= set(resumed) <= {"step 20", "step 30", "step 40"}
    assert resumed == {step: whole[step] for step in resumed}
