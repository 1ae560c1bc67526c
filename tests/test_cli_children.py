"""Commands end their child processes when they end."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

# The signal may come at any time after the first line, for example within a print.
CHILD = """
import os, signal, sys, time

def end(number, _):
    os.write(1, b"cleaned up\\n")
    sys.exit()

signal.signal(signal.SIGTERM, end)
os.write(1, b"ready\\n")
while True:
    time.sleep(0.05)
"""
PARENT = """
import sys
from pathlib import Path
from netpipe.cli.console import run_child
from netpipe.signals import signals_as_errors

with signals_as_errors():
    run_child([sys.executable, "-c", sys.argv[1]], Path.cwd(), {})
"""


@pytest.mark.parametrize(
    ("ended_by", "returncode"),
    [(signal.SIGKILL, -9), (signal.SIGTERM, 128 + 15), (signal.SIGHUP, 128 + 1)],
)
def test_a_child_ends_with_its_parent(
    ended_by: signal.Signals, returncode: int, tmp_path: Path
) -> None:
    """The child is told to clean up, whatever ended the parent."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        text=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as parent:  # fmt: skip
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        parent.send_signal(ended_by)
        assert parent.stdout.read() == "cleaned up\n"  # until every writer has ended
    assert parent.returncode == returncode
