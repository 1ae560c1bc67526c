"""The module that sessions run, which loader workers import again."""

import subprocess
import sys

import pytest


def test_workers_import_nothing_heavy() -> None:
    """Other imports would cost each worker memory, and delay the first batch."""
    program = (
        "import sys, typing; before = set(sys.modules); import netpipe.jobs.child;"
        "print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    names = done.stdout.decode().split()
    assert [name for name in names if "typing" not in name and name != "collections.abc"] == [
        "netpipe", "netpipe.jobs", "netpipe.jobs.child"
    ]  # fmt: skip


@pytest.mark.parametrize(("request_", "says"), [("", "not by hand"), ("{}", "Unset it")])
def test_a_child_that_is_started_by_hand_refuses_to_run(request_: str, says: str) -> None:
    """Without the request of a parent there is nothing to do."""
    done = subprocess.run(
        [sys.executable, "-m", "netpipe.jobs.child"],
        env={"NETPIPE_SESSION": request_}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert says in done.stderr.splitlines()[-1]
