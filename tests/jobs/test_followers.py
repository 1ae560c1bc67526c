"""Processes that left a session still belong to it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from netpipe.jobs.cleanup import _follows
from netpipe.jobs.request import REQUEST_VARIABLE
from netpipe.linting.lint_request import LintRequest

RESULT = "/tmp/größe/result.json"  # no file is made
NO_PROCESS = 0


@pytest.mark.parametrize(
    ("variable", "result", "follows"),
    [
        (LintRequest(result=RESULT).to_json(), RESULT, True),
        (LintRequest(result=f"{RESULT}.old").to_json(), RESULT, False),
        (LintRequest().to_json(), "", False),
        ("", "", False),
        ("no JSON", RESULT, False),
        (json.dumps([RESULT]), RESULT, False),
    ],
    ids=["same", "another", "no result", "no request", "no JSON", "no object"],
)
def test_the_environment_names_the_session(
    tmp_path: Path, variable: str, result: str, follows: bool
) -> None:
    """A process belongs to the session whose result file its environment names, exactly."""
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env={**os.environ, REQUEST_VARIABLE: variable},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert _follows(psutil.Process(process.pid), NO_PROCESS, result) == follows
        process.kill()
