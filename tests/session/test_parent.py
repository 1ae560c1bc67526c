"""Whatever a session's process does, it is ended, cleaned up after, and its failure reported."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import psutil
import pytest

from netpipe.device.host import this_host
from netpipe.errors import HangError, InputError, MisuseError, OutOfTimeError, SessionError
from netpipe.linting.request import LintRequest
from netpipe.measuring.child import child_command
from netpipe.measuring.request import MeasureRequest
from netpipe.session import cleanup, parent
from netpipe.session import request as request_module
from netpipe.session.parent import run_measurement, run_session
from tests.measurements import make_measurement
from tests.session.session_targets import tiny_loader

REQUEST = MeasureRequest(accelerator="emulated:5ms", budget_s=1.5)
LINT = LintRequest()
TARGETS = Path(__file__).with_name("session_targets.py")
PRELUDE = """\
import json, os, pathlib, signal, subprocess, sys, time
request = json.loads(os.environ["NETPIPE_SESSION"])
result = pathlib.Path(request["result"])
here = pathlib.Path({here!r})
def answer(**document):
    result.write_text(json.dumps({{"schema": "netpipe.session/1", **document}}))
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The folder that children leave their traces in."""
    return tmp_path


def child(here: Path, source: str) -> list[str]:
    """Give the command of a child that knows its request and runs a Python text."""
    return [sys.executable, "-c", PRELUDE.format(here=str(here)) + source]


def wait_until_gone(pid: int) -> None:
    """Fail unless the process ends, or is but a name that nobody asked after, in 30 s."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return
        except psutil.NoSuchProcess:
            return
        time.sleep(0.01)
    pytest.fail(f"process {pid} lives")


def test_a_child_gives_a_measurement(here: Path) -> None:
    """The caller gets the measurement that the child wrote."""
    made = make_measurement()
    (here / "made.json").write_text(json.dumps(made.to_document()))
    source = "answer(measurement=json.loads((here / 'made.json').read_text()))"
    assert run_measurement(child(here, source), REQUEST) == made


def test_a_child_gets_its_request(here: Path) -> None:
    """The child learns who waits for it, and of a result file that is removed at the end."""
    asked = LintRequest(budget_s=7.0, batch_limit_s=3.0, intent="reproducible")
    found = run_session(child(here, "answer(lint=request)"), asked)
    result = found.pop("result")
    assert not Path(result).parent.exists()
    assert found == {
        "kind": "lint", "budget_s": 7.0, "batch_limit_s": 3.0, "intent": "reproducible",
        "parent": os.getpid(),
    }  # fmt: skip


@pytest.mark.parametrize(("accelerator", "platforms"), [("auto", "cuda"), ("emulated:5ms", "cpu")])
def test_an_emulated_accelerator_leaves_the_real_one_alone(
    accelerator: str, platforms: str
) -> None:
    """Its session runs on the CPU; with `auto` the user's own setting stands."""
    base = {"JAX_PLATFORMS": "cuda", "PYTEST_XDIST_WORKER": "gw0", "HOME": "/root"}
    base["TMPDIR"] = "/tmp/mine"  # where the user's code looks for what it has prepared
    request = MeasureRequest(result="/some/where/result.json", accelerator=accelerator)
    found = parent._variables(base, request)
    assert found.pop("NETPIPE_SESSION")
    assert found == {"JAX_PLATFORMS": platforms, "HOME": "/root", "TMPDIR": "/tmp/mine"}


@pytest.mark.parametrize(
    ("source", "ending"),
    [
        ("print('last words'); sys.exit(3)", "ended with code 3"),
        ("print('last words')", "ended with code 0"),
        (
            "print('last words', flush=True); os.kill(os.getpid(), signal.SIGKILL)",
            "ended by SIGKILL",
        ),
        ("sys.stderr.write('last words'); raise KeyError('x')", "ended with code 1"),
    ],
)
def test_the_error_has_the_ending_of_a_child_without_a_result(
    here: Path, source: str, ending: str
) -> None:
    """The error has the child's ending, and its last lines from both streams."""
    with pytest.raises(SessionError, match=ending) as caught:
        run_measurement(child(here, source), REQUEST)
    assert "last words" in str(caught.value)


def test_a_child_that_printed_nothing_has_no_last_lines(here: Path) -> None:
    """The error ends with how the child ended."""
    with pytest.raises(SessionError, match=r"ended with code 0 without a result$"):
        run_measurement(child(here, "os._exit(0)"), REQUEST)


def test_a_stopped_child_hangs(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own watchdog is stopped with it, so the parent ends it."""
    monkeypatch.setattr(parent, "_LISTING_S", 0.0)
    with pytest.raises(HangError, match="stopped by a signal"):
        run_measurement(child(here, "os.kill(os.getpid(), signal.SIGSTOP)"), REQUEST)


def test_a_child_that_was_stopped_for_a_moment_goes_on(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look at a stopped child proves nothing: a scheduler may continue it after its parent."""
    looks = iter([psutil.STATUS_STOPPED, psutil.STATUS_SLEEPING] * 1000)
    monkeypatch.setattr(parent, "_LISTING_S", 0.0)
    monkeypatch.setattr(psutil.Process, "status", lambda _: next(looks, psutil.STATUS_SLEEPING))
    assert run_session(child(here, "time.sleep(0.3); answer(lint={})"), LINT) == {}


def test_the_log_of_a_child_is_cut(here: Path) -> None:
    """The log of a loader that prints without end cannot fill a disk; its two ends are shown."""
    source = (
        "print('first words', flush=True)\n"
        "os.write(1, b'x\\n' * (1 << 20))\n"
        "while os.fstat(1).st_size > 1 << 20: time.sleep(0.01)\n"
        "print('last words', flush=True)\n"
        "sys.exit(3)"
    )
    with pytest.raises(SessionError, match="ended with code 3") as caught:
        run_measurement(child(here, source), replace(REQUEST, time_left_s=30.0))
    lines = str(caught.value).splitlines()
    assert (lines[1], lines[-1]) == ("first words", "last words")
    assert "[2,097,096 bytes left out]" in lines


def test_a_child_out_of_time_is_killed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An endless child is ended at its limit, which the error names."""
    limits_s = {"_IMPORT_S": 0.0, "START_UP_S": 0.1, "OVERTIME_S": 0.1, "FAREWELL_S": 0.1}
    for name, limit_s in limits_s.items():
        monkeypatch.setattr(request_module, name, limit_s)
    request = MeasureRequest(budget_s=0.1, start_limit_s=0.1)
    with pytest.raises(SessionError, match=r"0\.6 s and was killed"):
        run_measurement(child(here, "time.sleep(1000)"), request)


def test_a_child_that_the_caller_cut_short_is_out_of_time(here: Path) -> None:
    """When the time that several sessions share is over, this session has not failed."""
    request = MeasureRequest(time_left_s=0.1)
    with pytest.raises(OutOfTimeError, match=r"0\.1 s and was killed"):
        run_measurement(child(here, "time.sleep(1000)"), request)


def test_a_child_that_crashes_later_leaves_what_it_had(here: Path) -> None:
    """A partial result counts when the session ends without a complete one."""
    source = (
        "answer(lint={'found': 1}); result.rename(result.with_name('partial.json'))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    assert run_session(child(here, source), LINT) == {"found": 1}


def test_a_child_that_lingers_is_killed_with_its_result_read(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result counts although its process does not end."""
    monkeypatch.setattr(parent, "FAREWELL_S", 0.1)
    source = "answer(lint={'pid': os.getpid()}); time.sleep(1000)"
    wait_until_gone(run_session(child(here, source), LINT)["pid"])


@pytest.mark.parametrize(
    "source",
    [
        "result.write_text('{not json')",
        "result.write_bytes(b'\\xff\\xfe')",
        "result.write_text('[]')",
        "answer()",
        "answer(lint={})",
        "answer(error={'kind': 'boredom', 'message': 'no'})",
    ],
)
def test_garbage_is_no_result(here: Path, source: str) -> None:
    """A result of another shape is a failed session, not a crash of the caller."""
    with pytest.raises(SessionError, match=r"netpipe\.session/1; found"):
        run_measurement(child(here, source), REQUEST)


def test_a_measurement_of_another_schema_is_refused(here: Path) -> None:
    """The result of an incompatible version of netpipe is refused."""
    with pytest.raises(InputError, match=r"schema .*netpipe\.measurement/1"):
        run_measurement(
            child(here, "answer(measurement={'schema': 'netpipe.measurement/0'})"), REQUEST
        )


@pytest.mark.parametrize(
    ("kind", "error"), [("misuse", MisuseError), ("hang", HangError), ("failed", SessionError)]
)
def test_an_error_keeps_its_type_and_its_message(here: Path, kind: str, error: Any) -> None:
    """Misuse, a hang and a failure are different errors, with the child's own message."""
    source = f"answer(error={{'kind': {kind!r}, 'message': 'words'}})"
    with pytest.raises(error, match=r"^words$") as caught:
        run_measurement(child(here, source), REQUEST)
    assert type(caught.value) is error


@pytest.mark.parametrize("leaves", [False, True])
def test_nothing_that_a_child_started_lives_on(here: Path, leaves: bool) -> None:
    """Its children are killed with it, even in sessions of their own or if it ended before them."""
    source = (
        "nap = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'],\n"
        f"    start_new_session={leaves})\n"
        "answer(lint={'pid': nap.pid})"
    )
    wait_until_gone(run_session(child(here, source), LINT)["pid"])


ESCAPE = """
from netpipe.session.child import run_job
from netpipe.session.request import SessionRequest

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

def job(_):
    pid = escape()
    (here / "part").write_text(str(pid))
    (here / "part").rename(here / "pid")
    END
    return {"lint": {"pid": pid}}

run_job(SessionRequest.from_environment(), job)
"""


@pytest.mark.parametrize("after", ["", "time.sleep(1000)"], ids=["ends", "lingers"])
def test_a_daemon_without_a_trace_of_the_session_is_killed(
    here: Path, monkeypatch: pytest.MonkeyPatch, after: str
) -> None:
    """One that forked twice, left the Unix session and has no environment ends with it."""
    monkeypatch.setattr(parent, "FAREWELL_S", 0.1)
    source = ESCAPE.replace("END", "") + after
    wait_until_gone(run_session(child(here, source), LINT)["pid"])


def test_a_daemon_of_a_child_that_crashes_is_killed(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the child was seen to have started is killed though the child cannot do it."""

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
    """A process of this one, and one that left it before, are not touched."""
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
from netpipe.linting.request import LintRequest
from netpipe.session.parent import run_session

run_session([sys.executable, "-c", sys.argv[1]], LintRequest())
"""


def test_a_session_that_its_killed_parent_had_stopped_ends(here: Path) -> None:
    """A session is stopped while its processes are killed, and does not stay so for ever."""
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


@pytest.fixture
def temporary(here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for temporary files, here and in children."""
    monkeypatch.setattr(tempfile, "tempdir", str(here))
    monkeypatch.setenv("TMPDIR", str(here))
    return here


def test_temporary_files_of_the_user_are_left_alone(temporary: Path) -> None:
    """A session sees what is kept there between runs, and what it adds stays."""
    (temporary / "prepared").mkdir()
    source = (
        "import tempfile\n"
        "kept = pathlib.Path(tempfile.gettempdir(), 'prepared')\n"
        "(kept / 'cached').touch()\n"
        "answer(lint={})"
    )
    run_session(child(temporary, source), LINT)
    assert (temporary / "prepared" / "cached").exists()


TRACED = """
from netpipe.session.cleanup import end_this_session
from netpipe.session.request import SessionRequest
from netpipe.measuring.profiler_trace import load_overlap_fraction

def end():
    (here / "made").write_text(" ".join(map(str, here.glob("netpipe-trace-*"))))
    END

load_overlap_fraction(end)
"""


def assert_a_trace_was_removed(temporary: Path) -> None:
    """Fail unless the child made a single trace, which is gone."""
    made = Path((temporary / "made").read_text())
    assert made.parent == temporary
    assert not made.exists()


def test_a_trace_of_a_killed_child_is_removed(temporary: Path) -> None:
    """A process that is killed while it is traced cleans up nothing."""
    source = TRACED.replace("END", "os.kill(os.getpid(), signal.SIGKILL)")
    with pytest.raises(SessionError, match="SIGKILL"):
        run_measurement(child(temporary, source), REQUEST)
    assert_a_trace_was_removed(temporary)


def test_a_trace_of_an_abandoned_child_is_removed(temporary: Path) -> None:
    """One that nobody waits for removes its trace itself."""
    command = child(
        temporary, TRACED.replace("END", "end_this_session(SessionRequest.from_environment())")
    )
    request = replace(REQUEST, result=str(temporary / "result.json"), parent=1)
    subprocess.run(command, env=parent._variables(os.environ, request), check=False)
    assert_a_trace_was_removed(temporary)


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
        (signal.SIGHUP, 128 + signal.SIGHUP, ""),
        (signal.SIGKILL, -signal.SIGKILL, ""),
        (signal.SIGKILL, -signal.SIGKILL, "write_pids(); time.sleep(1000)"),
    ],
    ids=["terminated", "hung-up", "killed", "killed-at-import"],
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
    """A session that pytest started ends as well when nobody waits for it any more."""
    target = here / "test_left_alone.py"
    target.write_text(LEFT_ALONE.replace("AT_IMPORT", "") + LEFT_ALONE_TEST)
    words = f"pytest {target} --rootdir={here} -p no:cacheprovider"
    words += " --netpipe-accelerator=emulated:5ms --netpipe-budget=600"
    assert end_while_measuring(here, words, ended_by) == returncode
    assert_nothing_is_left(here)


@pytest.fixture
def foreign_memory() -> Iterator[SharedMemory]:
    """Shared memory of somebody else's."""
    memory = SharedMemory(create=True, size=16)
    yield memory
    memory.unlink()


def test_shared_memory_of_a_killed_child_is_removed(
    here: Path, foreign_memory: SharedMemory
) -> None:
    """The memory of the child is removed; what others made stays, even if it is open nowhere."""
    source = (
        "from multiprocessing.shared_memory import SharedMemory\n"
        "memory = SharedMemory(create=True, size=16); memory.close()\n"
        "(here / 'name').write_text(memory.name)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    foreign_memory.close()
    with pytest.raises(SessionError, match="SIGKILL"):
        run_measurement(child(here, source), REQUEST)
    assert not Path("/dev/shm", (here / "name").read_text()).exists()
    assert Path("/dev/shm", foreign_memory.name).exists()


def test_the_command_names_its_targets() -> None:
    """A step and a loop that are left out are left out of the command."""
    start = [sys.executable, "-P", "-m", "netpipe.measuring.child", "--loader", "a:b"]
    assert child_command("a:b", None, None) == start
    assert child_command("a:b", "c:d", "e:f") == [*start, "--step", "c:d", "--loop", "e:f"]


def test_a_target_that_is_not_there_is_misuse() -> None:
    """The child's error about a target reaches the caller with its type."""
    with pytest.raises(MisuseError, match=r"absent\.py: .*found none"):
        run_measurement(child_command("absent.py:loader", None, None), REQUEST)


def test_a_loader_that_hangs_is_ended_and_named() -> None:
    """The error has the number of batches before, and the line of the loader."""
    request = MeasureRequest(accelerator="emulated:5ms", batch_limit_s=0.5)
    with pytest.raises(HangError, match=r"0\.5 s after 2 batches") as caught:
        run_measurement(child_command(f"{TARGETS}:hanging_loader", None, None), request)
    assert "hanging_loader" in str(caught.value)


def test_a_session_measures_from_end_to_end() -> None:
    """A loader and an emulated accelerator give a whole measurement, as many rounds of each."""
    found = run_measurement(child_command(f"{TARGETS}:tiny_loader", None, None), REQUEST)
    assert (found.device.key, found.device.platform) == ("emulated-5ms", "emulated")
    assert found.host == this_host()
    assert found.batch_bytes == next(tiny_loader())["x"].nbytes
    assert set(found.versions) == {"python", "netpipe", "grain", "jax", "jaxlib", "numpy"}
    rounds = {len(series) for series in asdict(found.rounds).values()}
    assert rounds == {found.step_s.n}
    assert found.step_s.n >= 1
    assert found.step_s.median >= 0.005
    assert found.compilations == 0
    assert found.elapsed_s > 0
