"""Importing the step touches no device."""

import subprocess
import sys

PROGRAM = """
import netpipe.workload.step.train
from jax._src import xla_bridge
assert not xla_bridge.backends_are_initialized()
"""


def test_importing_the_step_touches_no_device() -> None:
    """No jax backend exists after the import: it would take an accelerator's memory."""
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


def test_flops_need_no_jax() -> None:
    """The step time of an emulated accelerator is derived without loading jax."""
    program = "import sys, netpipe.workload.step.presets; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
