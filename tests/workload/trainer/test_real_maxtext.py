"""Trainings of MaxText itself on our batches. `tox -e maxtext` has it."""

import re
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from netpipe.watching.logs import Log
from netpipe.workload.resume import ResumableBatches
from netpipe.workload.trainer.network_config import NetworkConfig
from tests.command import Netpipe, document
from tests.real_maxtext import find_losses, losses, needs_maxtext, run, write_config

pytestmark = needs_maxtext

SETTINGS = """
skip_jax_distributed_system: true
dataset_type: network
network_train_files: {data}
data_shuffle_seed: 3
num_epoch: 0
vocab_size: 320
learning_rate_schedule_steps: 60
enable_checkpointing: false
log_config: false
"""
# As docs/maxtext.md writes it; it does something with the first batch too.
LAUNCHER = """
from absl import app

from netpipe.workload.trainer.maxtext import register

if __name__ == "__main__":
    register()
    import os

    import numpy as np
    from netpipe.jobs.processes import list_workers
    from maxtext.common.data_loader import DataLoader
    from maxtext.trainers.pre_train import train

    load = DataLoader.load_next_batch

    def load_first(self, *words, **named):
        batch = load(self, *words, **named)
        DataLoader.load_next_batch = load
        {action}
        return batch

    DataLoader.load_next_batch = load_first
    app.run(train.main)
"""
OURS = "-m", "netpipe.workload.trainer.maxtext"


@pytest.fixture
def config(many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the configuration of a tiny model on four devices, and stand in its folder."""
    monkeypatch.chdir(tmp_path)
    return write_config(tmp_path, SETTINGS.format(data=many), monkeypatch)


def test_maxtext_trains_on_our_batches(config: Path, many: Path, tmp_path: Path) -> None:
    """The first losses are those of our iterator, they fall, and the evaluation runs as well."""
    (tmp_path / "train_network.py").write_text(
        LAUNCHER.format(action='np.savez("first.npz", **batch)')
    )
    evaluated = "eval_interval=30", "eval_steps=2"
    code, output = run("train_network.py", config, "steps=60", *evaluated)
    assert code == 0, output
    found = find_losses(output)
    assert len(found) == 60
    # Guessing among 320 tokens costs ln(320) = 5.8.
    assert min(found[:3]) > 5
    assert max(found[-10:]) < 3
    assert len(re.findall("Completed eval after train step", output)) == 2
    wanted = NetworkConfig(
        str(many), data_shuffle_seed=3, max_target_length=64, global_batch_size_to_load=8,
        grain_worker_count=0,
    )  # fmt: skip
    trained_on = np.load("first.npz")
    with closing(ResumableBatches(*wanted.for_host(0, 1, evaluates=False))) as batches:
        first = next(batches)
    assert set(trained_on) == set(first)
    for name, array in first.items():
        np.testing.assert_array_equal(trained_on[name], array)


@pytest.mark.parametrize("dataset_type", ["network", "synthetic"])
def test_a_training_is_watched(config: Path, dataset_type: str) -> None:
    """One setting has the batches and steps of every dataset type watched."""
    watched = f"dataset_type={dataset_type}", "netpipe_watch_dir=logs"
    assert len(losses(*OURS, config, "steps=20", *watched)) == 20
    windows = [*Log(Path("logs/process-0.jsonl")).read()]
    assert sum(window.figures.batches for window in windows) == 20
    assert all(window.figures.synced_fraction is not None for window in windows)
    assert all(window.tokens_per_s for window in windows)


def test_a_training_goes_on_from_its_checkpoint(config: Path) -> None:
    """The losses equal those of an uninterrupted training, even with other workers."""
    kept = "enable_checkpointing=true", "checkpoint_period=2"
    first = losses(*OURS, config, "steps=3", *kept)
    second = losses(*OURS, config, "steps=6", *kept, "grain_worker_count=2")
    assert len(first) == len(second) == 3
    assert first + second == losses(*OURS, config, "steps=6")


def test_a_loader_that_fails_ends_a_training(config: Path, tmp_path: Path) -> None:
    """The training ends with our error, and with exit code 1."""
    killing = "[os.kill(pid, 9) for pid in list_workers()]"
    (tmp_path / "train_network.py").write_text(LAUNCHER.format(action=killing))
    code, output = run("train_network.py", config, "steps=1000")
    assert code == 1
    assert "netpipe.errors.LoaderFailedError: " in output, output


def test_the_type_is_refused_where_it_is_not_registered(config: Path) -> None:
    """MaxText's own command knows neither the type nor its settings."""
    code, output = run("-m", "maxtext.trainers.pre_train.train", config, "steps=1")
    assert code != 0
    assert "'network_train_files' not in" in output
    assert "completed step" not in output


def test_a_configuration_with_our_type_is_measured(config: Path, netpipe: Netpipe) -> None:
    """The configuration is measured, and its dataset linted, like MaxText's own types."""
    result = netpipe(
        "measure", "--maxtext", config, "--accelerator", "emulated:20ms", "--budget", 2, "--quiet",
        "--json",
    )  # fmt: skip
    assert result.stdout, result.stderr
    assert document(result, "measurement.1.json")["batch_bytes"] == 6 * 8 * 64 * 4
    result = netpipe("lint", f"netpipe.maxtext:dataset {config}", "--quiet", "--json")
    assert "read_block" in str(document(result, "lint.1.json")["graph"])
