"""A step over several devices is timed on batches with the loader's sharding."""

import json
from pathlib import Path

import pytest

from tests.root_process import run_module

TARGET = """
import jax, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

def sharding(*axes):
    return NamedSharding(Mesh(np.array(jax.devices()), ("data",)), PartitionSpec(*axes))

def loader():
    number = 0
    while True:
        number += 1
        yield {"x": jax.device_put(np.full((8, 64), number, np.float32), sharding("data"))}

@jax.jit
def train(state, batch):
    # No reduction, because XLA's collectives between CPU devices may deadlock.
    return state * 0.999, {"loss": batch["x"] @ state}

def step():
    def checked(state, batch):
        assert len(jax.devices()) == 4
        assert batch["x"].sharding == sharding("data"), batch["x"].sharding
        return train(state, batch)
    return jax.device_put(np.eye(64, dtype=np.float32), sharding()), checked
"""


def test_resident_batches_keep_their_sharding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step alone contains no copies between devices."""
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
    target = tmp_path / "several_devices.py"
    target.write_text(TARGET)
    measured = run_module(
        "netpipe", "measure", "--loader", f"{target}:loader", "--step", f"{target}:step",
        "--budget", "2", "--json",
    )  # fmt: skip
    assert measured.returncode in (0, 1, 3), measured.stderr
    found = json.loads(measured.stdout)
    assert found["step_s"]["median"] > 0
    of_host, of_device = found["tokens_per_s"], found["tokens_per_s_per_device"]
    assert of_host["median"] == pytest.approx(4 * of_device["median"])
