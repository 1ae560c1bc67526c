"""The example training gives the same losses after a kill and a restart."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from netpipe.watching.logs import Log
from tests.workload.conftest import many as many

SCRIPT = Path(__file__).parents[1] / "examples" / "training" / "train.py"
# Runs a script that is killed, with its workers, before it writes a line about a step.
KILLED = """
import os, runpy, signal, sys
_, step, *sys.argv = sys.argv
write = sys.stdout.write

def write_or_die(text):
    text.startswith(step) and os.killpg(0, signal.SIGKILL)
    write(text)

sys.stdout.write = write_or_die
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def train(folder: Path, data: Path, until: str = "") -> dict[str, str]:
    """Train for 40 steps; return the losses by step. With `until`, kill it after that step."""
    started = [sys.executable, "-c", KILLED, until] if until else [sys.executable]
    command = [*started, SCRIPT, "--data", data, "--out", folder, "--steps", "40", "--every=5"]
    settings = ["max_target_length=64", "global_batch_size_to_load=4", "grain_worker_count=1"]
    environment = {
        **os.environ, "JAX_PLATFORMS": "cpu",
        # One compilation for all.
        "JAX_COMPILATION_CACHE_DIR": str(folder.parent / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }  # fmt: skip
    losses = {}
    with subprocess.Popen(
        [*map(str, command), *settings],
        stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True,
    ) as training:  # fmt: skip
        assert training.stdout is not None
        for line in training.stdout:
            step, _, loss = line.strip().partition(": loss ")
            losses[step] = loss
    assert training.returncode == (-signal.SIGKILL if until else 0)
    return losses


def test_a_killed_training_comes_to_the_same_losses(many: Path, tmp_path: Path) -> None:
    """The losses agree to nine decimals, and fall."""
    whole = train(tmp_path / "whole", many)
    assert list(whole) == [f"step {number}" for number in (10, 20, 30, 40)]
    assert float(whole["step 40"]) < float(whole["step 10"])
    windows = Log(tmp_path / "whole" / "watch-0.jsonl").read()
    assert sum(window.figures.batches for window in windows) == 40
    train(tmp_path / "killed", many, until="step 20")
    resumed = train(tmp_path / "killed", many)
    assert resumed == {step: whole[step] for step in ("step 20", "step 30", "step 40")}
