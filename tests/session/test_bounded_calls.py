"""Work that ends, and work that does not."""

import subprocess
import sys
from concurrent.futures import wait
from threading import Event
from typing import Any

import pytest

from netpipe.errors import HangError, MisuseError
from netpipe.session.bounded_calls import call_within, summarize_error

AMPLE_S = 60.0


def test_a_result_is_handed_on() -> None:
    """What the work returns is returned."""
    assert call_within(lambda: 3, AMPLE_S) == 3


def test_an_error_is_handed_on() -> None:
    """What the work raises is raised, a TimeoutError of its own too."""

    def fail() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        call_within(fail, AMPLE_S)


def test_what_hangs_is_left_and_its_processes_are_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Work that waits for a process which it started is over as that is killed; others live."""
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
    monkeypatch.setattr("netpipe.session.bounded_calls.wait", wait_until_started)
    with subprocess.Popen(nap, stdin=subprocess.PIPE) as other:
        with pytest.raises(HangError, match=r"did not end within 1\.5 s"):
            call_within(wait_for_a_process, 1.5)
        assert other.poll() is None
        other.kill()
    assert ended.wait(AMPLE_S)


def test_what_is_under_way_is_waited_for() -> None:
    """Once the limit is over it is asked how much longer to wait."""
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
    """The type is told of an error that is not ours, and never more than a line."""
    assert summarize_error(error) == line
