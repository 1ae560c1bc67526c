"""Importing the step touches no device, and its FLOPs need no jax."""

import subprocess
import sys

PROGRAM = """
import sys
import netpipe.workload.step.presets
assert "jax" not in sys.modules
import netpipe.workload.step.train
from jax._src import xla_bridge
assert not xla_bridge.backends_are_initialized()
"""


def test_imports_of_the_step_take_no_accelerator_s_memory() -> None:
    """FLOPs are known without loading jax, and importing the step initialises no backend."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
