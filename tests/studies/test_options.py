"""The shared options of the studies' commands."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["gate_power.identical", "rule_costs.__main__"])
def test_a_study_that_only_starts_processes_imports_no_jax(module: str) -> None:
    """Importing jax would take memory and CPU time beside the measured processes."""
    program = (
        f"import sys, perf_tests.studies.{module}; print({{'jax', 'grain'}} & {{*sys.modules}})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"set()\n"
