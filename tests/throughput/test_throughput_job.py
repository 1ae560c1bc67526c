"""The process of one run."""

import subprocess
import sys


def test_importing_it_imports_nothing_heavy() -> None:
    """Loader workers import the module again, so it imports nothing that costs time or memory."""
    program = (
        "import sys; import netpipe.throughput.throughput_job; "
        "print([name for name in ('numpy', 'psutil', 'jax', 'grain', 'netpipe.jobs.request') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


def test_it_needs_a_session() -> None:
    """Started by hand, it is a usage error."""
    done = subprocess.run(
        [sys.executable, "-m", "netpipe.throughput.throughput_job", "--seconds", "1"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"by hand" in done.stderr
