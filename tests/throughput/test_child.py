"""The process that measures once."""

import subprocess
import sys


def test_workers_that_import_it_import_nothing_else() -> None:
    """A loader's workers import its module again: it brings nothing that costs time or memory."""
    program = (
        "import sys; import netpipe.throughput.child; "
        "print([one for one in ('numpy', 'psutil', 'jax', 'grain', 'netpipe.session.request') "
        "if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"[]\n"


def test_it_is_for_sessions_alone() -> None:
    """Started by hand it says so."""
    done = subprocess.run(
        [sys.executable, "-m", "netpipe.throughput.child", "--seconds", "1"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 2
    assert b"started by netpipe, not by hand" in done.stderr
