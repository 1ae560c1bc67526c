"""The shared options of the studies' commands."""

import subprocess
import sys


def test_studies_that_only_start_processes_import_no_jax() -> None:
    """Importing jax would take memory and CPU time beside the measured processes."""
    program = (
        "import sys; from perf_tests.studies.gate_power import identical;"
        " from perf_tests.studies.rule_costs import __main__;"
        " print({'jax', 'grain'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"set()\n"
