"""A tiny model for tests with the real MaxText, which `tox -e maxtext` installs."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

needs_maxtext = pytest.mark.skipif(
    find_spec("maxtext") is None, reason="tox -e maxtext runs these tests"
)

CONFIG = """
base_config: base.yml
run_name: tiny
hardware: cpu
max_target_length: 64
per_device_batch_size: 2
ici_fsdp_parallelism: 4
base_emb_dim: 32
base_mlp_dim: 64
base_num_query_heads: 2
base_num_kv_heads: 2
base_num_decoder_layers: 1
head_dim: 16
attention: dot_product
learning_rate: 0.01
base_output_directory: {folder}/out
jax_cache_dir: ""
"""


def write_config(folder: Path, settings: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the configuration of a tiny model on four devices, with extra settings."""
    file = folder / "tiny.yml"
    file.write_text(CONFIG.format(folder=folder) + settings)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
    return file


def run(*words: str | Path) -> tuple[int, str]:
    """Run Python; return its exit code and all its output."""
    finished = subprocess.run(
        [sys.executable, *map(str, words)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900, check=False,
    )  # fmt: skip
    return finished.returncode, finished.stdout


def losses(*words: str | Path) -> list[float]:
    """Run Python, and return the losses that it prints."""
    code, output = run(*words)
    assert code == 0, output
    return find_losses(output)


def find_losses(output: str) -> list[float]:
    """Return the losses in the output of a training."""
    found = re.findall(r"^(?:.*completed step: .*, )?loss: ([\d.]+),", output, re.MULTILINE)
    return list(map(float, found))
