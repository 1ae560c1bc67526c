"""The modules that sessions start, which loader workers import again."""

import subprocess
import sys

import pytest

HEAVY = ("numpy", "jax", "grain", "rich", "jinja2")


@pytest.mark.parametrize(
    "module",
    [
        "netpipe.diagnosis.diagnose_job",
        "netpipe.linting.lint_job",
        "netpipe.measuring.measure_job",
        "netpipe.throughput.throughput_job",
    ],
)
def test_workers_import_nothing_heavy(module: str) -> None:
    """Heavy imports would cost each worker memory, and delay the first batch."""
    program = f"import sys, {module}; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"[]\n"
