"""No process of a session outlives it, whatever ends it."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from math import inf
from pathlib import Path

import psutil
import pytest

from netpipe.errors import SessionError
from netpipe.jobs import cleanup, parent
from netpipe.jobs.parent import run_session
from tests.jobs.child_programs import LINT, child, wait_until_gone


@pytest.mark.parametrize("leaves", [False, True])
def test_nothing_that_a_child_started_lives_on(here: Path, leaves: bool) -> None:
    """Children are killed with it, even in sessions of their own or if it ended before them."""
    source = (
        "nap = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'],\n"
        f"    start_new_session={leaves})\n"
        "answer(lint={'pid': nap.pid})"
    )
    wait_until_gone(run_session(child(here, source), LINT)["pid"])


def test_an_ended_tracker_that_nobody_reaps_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first process of some containers reaps orphans late or never."""
    command = ["sh", "-c", "sleep 0 & echo $!; exec sleep 60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        tracker = psutil.Process(int(shell.stdout.readline()))
        monkeypatch.setattr(cleanup, "_kill_followers", lambda *_: {tracker})
        monkeypatch.setattr(cleanup, "_CLEANING_S", inf)
        cleanup.end_child(subprocess.Popen(["sleep", "60"]), "")
        assert tracker.status() == psutil.STATUS_ZOMBIE
        shell.kill()


ESCAPE = """
from netpipe.jobs import registry

def escape():
    end, start = os.pipe()
    if not os.fork():
        os.setsid()
        if not os.fork():
            os.write(start, str(os.getpid()).encode())
            os.execve("/bin/sleep", ["sleep", "1000"], {})
        os._exit(0)
    os.wait()
    return int(os.read(end, 20))

def job(*_):
    pid = escape()
    (here / "part").write_text(str(pid))
    (here / "part").rename(here / "pid")
    END
    return {"lint": {"pid": pid}}

registry._run = job
registry.run_job(registry.read_request(), lambda: None)
"""


@pytest.mark.parametrize("after", ["", "time.sleep(1000)"], ids=["ends", "lingers"])
def test_a_daemon_without_a_trace_of_the_session_is_killed(
    here: Path, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    """A process that forked twice, left the Unix session and has no environment ends with it."""
    monkeypatch.setattr(parent, "FAREWELL_S", 0.1)
    source = ESCAPE.replace("END", "") + after
    wait_until_gone(run_session(child(here, source), LINT)["pid"])


def test_a_daemon_of_a_child_that_crashes_is_killed(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parent kills the processes that it saw, because the child cannot."""

    def list_started(pid: int) -> set[psutil.Process]:
        found = cleanup.list_started(pid)
        if (here / "pid").exists() and int((here / "pid").read_text()) in {p.pid for p in found}:
            (here / "seen").touch()
        return found

    monkeypatch.setattr(parent, "list_started", list_started)
    monkeypatch.setattr(parent, "_LISTING_S", 0.0)
    end = (
        "while not (here / 'seen').exists(): time.sleep(0.01)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)"
    )
    with pytest.raises(SessionError, match="SIGKILL"):
        run_session(child(here, ESCAPE.replace("END", end)), LINT)
    wait_until_gone(int((here / "pid").read_text()))


def test_processes_that_no_session_started_live_on(here: Path) -> None:
    """Processes of the parent, and of an earlier session, live on."""
    escape = ESCAPE.partition("def job")[0]
    daemon = child(here, f"{escape}(here / 'left').write_text(str(escape()))")
    known = {**os.environ, "NETPIPE_SESSION": json.dumps({"result": str(here / "other.json")})}
    subprocess.run(daemon, env=known, check=True)
    with subprocess.Popen(["/bin/sleep", "1000"], start_new_session=True) as own:
        left = psutil.Process(int((here / "left").read_text()))
        try:
            run_session(child(here, ESCAPE.replace("END", "")), LINT)
            assert own.poll() is None
            assert left.is_running()
        finally:
            own.kill()
            left.kill()


STOPPED = """
from netpipe.linting.lint_request import LintRequest
from netpipe.jobs.parent import run_session

run_session([sys.executable, "-c", sys.argv[1]], LintRequest())
"""


def test_a_session_that_its_killed_parent_had_stopped_ends(here: Path) -> None:
    """A session that was stopped to be killed resumes when its parent dies."""
    [_, _, source] = child(here, ESCAPE.replace("END", "time.sleep(1000)"))
    known = {**os.environ, "NETPIPE_SESSION": json.dumps({"result": str(here / "other.json")})}
    with subprocess.Popen([*child(here, STOPPED), source], env=known) as waiting:
        while not (here / "pid").exists():
            assert waiting.poll() is None
            time.sleep(0.01)
        [session] = psutil.Process(waiting.pid).children()
        session.suspend()
        waiting.kill()
    wait_until_gone(session.pid)
    wait_until_gone(int((here / "pid").read_text()))


ASKING = """
from netpipe.jobs import registry

def job(*_):
    with open("/dev/tty") as terminal:
        terminal.read(1)

registry._run = job
registry.run_job(registry.read_request(), lambda: None)
"""


AT_TERMINAL = """
import pty

from netpipe.jobs.parent import open_session
from netpipe.linting.lint_request import LintRequest

def ask():
    command = [sys.executable, "-c", sys.argv[1]]
    with open_session(command, LintRequest(), in_own_unix_session=False) as session:
        print(os.getsid(session.pid) == os.getsid(0), flush=True)
        session.result()

pid, terminal = pty.fork()
if pid == 0:
    ask()
shown = b""
with contextlib.suppress(OSError):  # The other end is closed.
    while part := os.read(terminal, 1024):
        shown += part
print(shown.decode())
"""


def test_a_question_at_the_terminal_fails(here: Path) -> None:
    """A session in its parent's Unix session has no terminal, where it would be stopped."""
    [_, _, source] = child(here, ASKING)
    known = {**os.environ, "NETPIPE_SESSION": json.dumps({"result": str(here / "other.json")})}
    command = [*child(here, f"import contextlib{AT_TERMINAL}"), source]
    done = subprocess.run(command, env=known, capture_output=True, text=True)
    assert done.stdout.startswith("True")
    assert "No such device or address: '/dev/tty'" in done.stdout


STARTING = """
from netpipe.jobs import registry

def job(*_):
    (here / "pid").touch()
    while True:
        subprocess.Popen(["/bin/sleep", "1000"])
        time.sleep(0.005)

registry._run = job
registry.run_job(registry.read_request(), lambda: None)
"""


def test_a_process_that_is_started_meanwhile_ends_too(here: Path) -> None:
    """A session that ends because its parent was killed may still be starting processes."""
    [_, _, source] = child(here, STARTING)
    known = {**os.environ, "NETPIPE_SESSION": json.dumps({"result": str(here / "other.json")})}
    with subprocess.Popen([*child(here, STOPPED), source], env=known) as waiting:
        while not (here / "pid").exists():
            assert waiting.poll() is None
            time.sleep(0.01)
        [session] = psutil.Process(waiting.pid).children()
        waiting.kill()
    wait_until_gone(session.pid)
    for process in psutil.process_iter():
        with suppress(ProcessLookupError):
            if os.getsid(process.pid) == session.pid:
                wait_until_gone(process.pid)


LEFT_ALONE = """
import os, pathlib, subprocess, sys, time
import numpy as np

def write_pids():
    nap = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    here = pathlib.Path(__file__).parent
    (here / "part").write_text(f"{os.getpid()} {nap.pid}")
    (here / "part").rename(here / "pids")

AT_IMPORT

def loader():
    write_pids()
    while True:
        yield {"x": np.zeros((2, 3), np.int32)}
"""
LEFT_ALONE_TEST = """
import pytest

@pytest.fixture
def netpipe_loader():
    return loader

def test_endless(netpipe_measurement):
    pass
"""


def end_while_measuring(here: Path, words: str, ended_by: signal.Signals) -> int:
    """Start a module, end it once its session wrote its pids, return its exit code."""
    environment = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    command = subprocess.Popen(
        [sys.executable, "-m", *words.split()], env={**environment, "TMPDIR": str(here)}
    )
    while not (here / "pids").exists():
        assert command.poll() is None
        time.sleep(0.01)
    command.send_signal(ended_by)
    return command.wait()


def assert_nothing_is_left(here: Path) -> None:
    """Fail unless the session has ended, and its child, and its folder is gone."""
    for pid in (here / "pids").read_text().split():
        wait_until_gone(int(pid))
    assert not list(here.glob("netpipe-session-*"))


@pytest.mark.parametrize(
    ("ended_by", "returncode", "at_import"),
    [
        (signal.SIGTERM, 128 + signal.SIGTERM, ""),
        (signal.SIGKILL, -signal.SIGKILL, ""),
        (signal.SIGKILL, -signal.SIGKILL, "write_pids(); time.sleep(1000)"),
    ],
    ids=["terminated", "killed", "killed-at-import"],
)
def test_an_ended_command_leaves_no_session(
    here: Path, ended_by: signal.Signals, returncode: int, at_import: str
) -> None:
    """Whatever ends a command ends its session, all that it started, and its folder."""
    target = here / "left_alone.py"
    target.write_text(LEFT_ALONE.replace("AT_IMPORT", at_import))
    words = f"netpipe measure --loader {target}:loader --accelerator emulated:5ms --budget 600"
    assert end_while_measuring(here, words, ended_by) == returncode
    assert_nothing_is_left(here)


@pytest.mark.parametrize(
    ("ended_by", "returncode"),
    [(signal.SIGHUP, 128 + signal.SIGHUP), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_an_ended_pytest_leaves_no_session(
    here: Path, ended_by: signal.Signals, returncode: int
) -> None:
    """A session that pytest started ends with pytest."""
    target = here / "test_left_alone.py"
    target.write_text(LEFT_ALONE.replace("AT_IMPORT", "") + LEFT_ALONE_TEST)
    words = f"pytest {target} --rootdir={here} -p no:cacheprovider"
    words += " --netpipe-accelerator=emulated:5ms --netpipe-budget=600"
    assert end_while_measuring(here, words, ended_by) == returncode
    assert_nothing_is_left(here)
