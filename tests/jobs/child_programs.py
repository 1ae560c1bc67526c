"""Programs that act as a session's process, and waiting for the end of processes."""

import sys
import time
from pathlib import Path

import psutil
import pytest

from netpipe.linting.lint_request import LintRequest
from netpipe.measuring.measure_request import MeasureRequest

REQUEST = MeasureRequest(accelerator="emulated:5ms", budget_s=1.5)
LINT = LintRequest()
PRELUDE = """\
import json, os, pathlib, signal, subprocess, sys, time
request = json.loads(os.environ["NETPIPE_SESSION"])
result = pathlib.Path(request["result"])
here = pathlib.Path({here!r})
def answer(**document):
    part = result.with_name("part")
    part.write_text(json.dumps({{"schema": "netpipe.session/1", **document}}))
    part.rename(result)
"""


def child(here: Path, source: str) -> list[str]:
    """Return the command of a child that knows its request and runs a Python text."""
    return [sys.executable, "-c", PRELUDE.format(here=str(here)) + source]


def wait_until_gone(pid: int) -> None:
    """Fail unless the process ends, or is only a zombie, within 30 s."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return
        except psutil.NoSuchProcess:
            return
        time.sleep(0.01)
    pytest.fail(f"process {pid} lives")
