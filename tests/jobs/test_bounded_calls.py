"""Calls that end, and calls that do not."""

import subprocess
import sys
from concurrent.futures import wait
from threading import Event, get_ident
from typing import Any

import pytest

from netpipe.errors import HangError, MisuseError
from netpipe.jobs.bounded_calls import CallingThread, call_within, summarize_error

AMPLE_S = 60.0


def test_an_error_is_raised_again() -> None:
    """An exception of the call reaches the caller, even a TimeoutError of its own."""

    def fail() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        call_within(fail, AMPLE_S)


def test_a_hung_call_loses_its_processes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call that waits for its own process ends when that process is killed; others live."""
    started, ended = Event(), Event()
    nap = [sys.executable, "-c", "input()"]

    def wait_for_a_process() -> None:
        with subprocess.Popen(nap, stdin=subprocess.PIPE) as process:
            started.set()
            process.wait()
        ended.set()

    def wait_until_started(futures: Any, _limit_s: float) -> Any:
        assert started.wait(AMPLE_S)
        return wait(futures, next(limits_s))

    limits_s = iter([0.0, 0.0, AMPLE_S])
    monkeypatch.setattr("netpipe.jobs.bounded_calls.wait", wait_until_started)
    with subprocess.Popen(nap, stdin=subprocess.PIPE) as other:
        with pytest.raises(HangError, match=r"1\.5 s"):
            call_within(wait_for_a_process, 1.5)
        assert other.poll() is None
        other.kill()
    assert ended.wait(AMPLE_S)


def test_a_grace_time_is_asked_for_at_the_limit() -> None:
    """When the limit is reached, `grace_s` says how much longer to wait."""
    over = Event()

    def grace_s() -> float:
        over.set()
        return AMPLE_S

    assert call_within(lambda: over.wait(AMPLE_S), 0.0, grace_s)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("bad record\nat 7"), "ValueError: bad record"),
        (MisuseError("a loader must load"), "a loader must load"),
    ],
)
def test_errors_fit_in_a_line(error: Exception, line: str) -> None:
    """The type precedes an error that is not ours, and only the first line is kept."""
    assert summarize_error(error) == line


def test_calls_are_made_in_their_order_in_one_thread() -> None:
    """A call that fails does not end the thread; its end comes after the calls before it."""
    thread = CallingThread("calls")
    identities = [thread.submit(get_ident), thread.submit(get_ident)]
    failing, last = thread.submit(lambda: 1 // 0), thread.submit(get_ident)
    thread.end()
    assert len({each.result(AMPLE_S) for each in (*identities, last)} - {get_ident()}) == 1
    with pytest.raises(ZeroDivisionError):
        failing.result(AMPLE_S)


def test_a_process_that_a_call_forks_ends_well() -> None:
    """The exit code of the process is 0; torch treats any other code as a broken worker."""
    program = (
        "import sys\n"
        "from multiprocessing import get_context\n"
        "from netpipe.jobs.bounded_calls import CallingThread\n"
        "def fork():\n"
        "    process = get_context('fork').Process(target=int)\n"
        "    process.start()\n"
        "    process.join()\n"
        "    return process.exitcode\n"
        "sys.exit(CallingThread('calls').submit(fork).result())\n"
    )
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program]
    assert subprocess.run(command, timeout=AMPLE_S, check=False).returncode == 0
