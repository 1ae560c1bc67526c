"""The watchdog's decisions on a fake clock, and its alarm in a real session."""

import faulthandler
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from netpipe.errors import HangError, SessionError
from netpipe.jobs import watchdog
from netpipe.jobs.parent import run_measurement
from netpipe.jobs.progress import Progress, ProgressReader
from netpipe.jobs.request import (
    OVERTIME_S,
    START_LIMIT_S,
    SessionRequest,
    progress_file,
    write_result,
)
from netpipe.jobs.targets import name_targets
from netpipe.jobs.watchdog import Alarm, Watchdog
from netpipe.measuring.measure_request import MeasureRequest
from tests.fakes import FakeClock
from tests.jobs import session_targets

REQUEST = MeasureRequest(budget_s=2.0, batch_limit_s=5.0, start_limit_s=90.0)
ROUNDS_S = 2.0 + OVERTIME_S
START_S = START_LIMIT_S


@pytest.fixture
def clock() -> FakeClock:
    """A clock at 0."""
    return FakeClock()


@pytest.fixture
def armed(monkeypatch: pytest.MonkeyPatch) -> list[float | None]:
    """The times after which the process would be ended without the GIL; None: cancelled."""
    times_s: list[float | None] = []
    monkeypatch.setattr(
        faulthandler, "dump_traceback_later", lambda after_s, **_: times_s.append(after_s)
    )
    monkeypatch.setattr(faulthandler, "cancel_dump_traceback_later", lambda: times_s.append(None))
    return times_s


@pytest.fixture
def dog(
    clock: FakeClock,
    armed: list[float | None],  # noqa: ARG001  # not for real
    tmp_path: Path,
) -> Iterator[Watchdog]:
    """A watchdog whose thread does not run."""
    made = Watchdog(replace(REQUEST, result=str(tmp_path / "result.json")), clock)
    yield made
    made._stacks.close()


def alarm_of(dog: Watchdog) -> Alarm:
    """Return the alarm that must be given now."""
    alarm = dog.alarm()
    assert alarm is not None
    return alarm


@pytest.mark.parametrize(("starts", "limit_s"), [(False, 5.0), (True, 90.0)])
def test_a_wait_has_its_limit(
    dog: Watchdog, clock: FakeClock, starts: bool, limit_s: float
) -> None:
    """A loader that starts has the start limit, any other batch the batch limit."""
    dog.note_wait(clock(), starts=starts)
    clock.sleep(limit_s)
    assert dog.alarm() is None
    clock.sleep(0.1)
    kind, message = alarm_of(dog)
    assert kind == "hang"
    assert f" {limit_s:g} s after 0 batches" in message
    assert ("--start-limit" in message) is starts
    assert ("--batch-limit" in message) is not starts


def test_a_loader_is_made_and_gives_its_first_batch_within_one_limit(
    dog: Watchdog, clock: FakeClock
) -> None:
    """The seconds that `loader()` took count for its first batch too."""
    dog.note_wait(clock(), starts=True)
    clock.sleep(60.0)
    dog.note_wait(clock(), starts=True)
    clock.sleep(30.0)
    assert dog.alarm() is None
    clock.sleep(0.1)
    assert " 90 s after 0 batches" in alarm_of(dog).message


@pytest.mark.parametrize("starts", [True, False])
def test_a_start_within_the_rounds_is_left_out_of_their_limit(
    dog: Watchdog, clock: FakeClock, armed: list[float | None], starts: bool
) -> None:
    """A loader that is started again for a minute does not make the rounds late; a wait does."""
    dog.begin_rounds()
    for _ in range(2):
        dog.note_wait(clock(), starts=starts)
        clock.sleep(80.0 if starts else 4.0)
        assert dog.alarm() is None
        dog.note_wait(None)
    clock.sleep(ROUNDS_S if starts else ROUNDS_S - 8.0)
    assert dog.alarm() is None
    clock.sleep(0.1)
    assert re.match(r"the rounds .* 12 s", alarm_of(dog).message)
    again = [ROUNDS_S + 93, ROUNDS_S + 3] * 2 if starts else []
    assert armed == [ROUNDS_S + 3, *again]


def test_a_start_is_part_of_the_progress(dog: Watchdog, clock: FakeClock) -> None:
    """The progress has the phase, its elapsed time and its limit."""
    heard: list[Progress] = []
    follower = ProgressReader(progress_file(dog._request), heard.append, clock)
    dog.enter_phase("making the loader")
    dog.note_wait(clock(), starts=True)
    for _ in range(2):
        clock.sleep(25.0)
        dog._show_start()
        follower.poll()
        dog.note_wait(clock(), starts=True)
    assert [progress.detail for progress in heard] == ["25 of at most 90 s", "50 of at most 90 s"]
    phases = [progress.doing for progress in heard]
    assert phases == ["making the loader", "waiting for the first batch"]


def test_a_worker_crash_while_the_loader_starts_is_reported_early(
    dog: Watchdog, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crash is reported after five seconds; processes from before the start do not count."""
    workers = {1: "by SIGTERM"}
    monkeypatch.setattr(watchdog, "list_workers", lambda: workers)
    dog.note_wait(clock(), starts=True)
    workers |= {2: "", 3: "by SIGKILL"}
    for _ in range(6):
        assert dog.alarm() is None
        clock.sleep(1.0)
    kind, message = alarm_of(dog)
    assert kind == "failed"
    assert re.search(r" 0 batches.* 3 .*SIGKILL", message)


def test_threads_that_pull_beside_each_other_have_limits_of_their_own(
    dog: Watchdog, clock: FakeClock
) -> None:
    """A thread whose batches arrive does not hide another one whose batch never does."""
    hangs = threading.Thread(target=dog.note_wait, args=(clock(),))
    hangs.start()
    hangs.join()
    for _ in range(2):
        dog.note_wait(clock())
        clock.sleep(2.0)
        dog.note_wait(None)
    assert dog.alarm() is None
    dog.note_wait(clock())
    clock.sleep(1.1)
    assert " 5 s after 2 batches" in alarm_of(dog).message


def test_a_batch_that_came_is_no_hang(dog: Watchdog, clock: FakeClock) -> None:
    """Every wait counts for itself, and nothing is waited for between two waits."""
    for _ in range(10):
        dog.note_wait(clock())
        clock.sleep(4.0)
        dog.note_wait(None)
    assert dog.alarm() is None
    clock.sleep(4.0)
    assert dog.alarm() is None


def test_an_alarm_keeps_a_partial_result(
    dog: Watchdog, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result from before the hang stays, and the session still ends."""

    class Left(Exception):  # noqa: N818  # not an error
        pass

    def leave(_: SessionRequest) -> None:
        raise Left

    monkeypatch.setattr(watchdog, "end_this_session", leave)
    monkeypatch.setattr(watchdog, "_POLL_S", 0.0)
    write_result(dog._request, {"measurement": {}}, is_whole=False)
    clock.sleep(START_S + 1)
    with pytest.raises(Left):
        dog._run()
    assert not Path(dog._request.result).exists()


def test_a_hang_has_the_line_and_the_workers(dog: Watchdog, clock: FakeClock) -> None:
    """The message has the waiting line, and the state of every worker process."""
    with subprocess.Popen(["sleep", "1000"]) as worker:
        dog.note_workers((worker.pid,))
        dog.note_wait(clock())
        clock.sleep(6.0)
        message = alarm_of(dog).message
        worker.kill()
    assert re.search(rf"worker process {worker.pid}: [a-z-]+, 0\.\d\d CPU seconds used", message)
    assert f'File "{__file__}"' in message


@pytest.mark.parametrize(
    ("waited_s", "starts", "found"), [(0.4, False, False), (0.6, False, True), (0.6, True, False)]
)
def test_a_worker_that_was_killed_ends_the_wait(
    dog: Watchdog, clock: FakeClock, waited_s: float, starts: bool, found: bool
) -> None:
    """The worker is named with its signal, unless a batch may still come or new workers start."""
    with subprocess.Popen(["sleep", "1000"]) as worker:
        worker.kill()
        os_waits_for(worker.pid)
        dog.note_workers((worker.pid,))
        dog.note_wait(clock(), starts=starts)
        clock.sleep(waited_s)
        alarm = dog.alarm()
    assert (alarm is not None) is found
    if alarm is not None:
        assert alarm.kind == "failed"
        assert re.search(rf" 0 batches.* {worker.pid} .*SIGKILL", alarm.message)


def os_waits_for(pid: int) -> None:
    """Wait until a child has ended, and leave its exit code to others."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def test_a_worker_that_ended_well_is_no_crash(dog: Watchdog, clock: FakeClock) -> None:
    """The workers of a loader that ends leave while its last batch is waited for."""
    with subprocess.Popen(["true"]) as worker:
        os_waits_for(worker.pid)
        dog.note_workers((worker.pid,))
        dog.note_wait(clock())
        clock.sleep(4.0)
        assert dog.alarm() is None


@pytest.mark.parametrize(
    ("start_limit_s", "extra_s", "limit_s"),
    [(1.0, 0.0, START_S), (900.0, 0.0, 900.0), (1.0, 300.0, START_S + 300)],
)
def test_the_start_up_has_its_limit(
    clock: FakeClock, tmp_path: Path, start_limit_s: float, extra_s: float, limit_s: float
) -> None:
    """A compilation that never ends is ended; a user, or the session's job, may allow more time."""
    result = str(tmp_path / "result.json")
    dog = Watchdog(replace(REQUEST, result=result, start_limit_s=start_limit_s), clock, extra_s)
    clock.sleep(limit_s)
    assert dog.alarm() is None
    clock.sleep(0.1)
    kind, message = alarm_of(dog)
    dog._stacks.close()
    assert kind == "hang"
    assert re.match(rf"the start-up .* {limit_s:g} s.* --netpipe-start-limit", message)


def test_the_rounds_have_their_budget_and_ten_seconds(dog: Watchdog, clock: FakeClock) -> None:
    """The seconds are counted from the end of the start-up, however long that took."""
    clock.sleep(START_S - 1)
    dog.begin_rounds()
    clock.sleep(ROUNDS_S)
    assert dog.alarm() is None
    clock.sleep(0.1)
    assert re.match(r"the rounds .* 12 s.* 2 s and 10 s", alarm_of(dog).message)


def test_each_stage_is_ended_without_the_gil_too(dog: Watchdog, armed: list[float | None]) -> None:
    """The limit is a little after the watchdog's, and cancelled when the measurement is over."""
    with dog:
        dog.begin_rounds()
    assert armed == [START_S + 3, ROUNDS_S + 3, None]


def test_a_late_round_names_the_loader_that_it_waits_for(dog: Watchdog, clock: FakeClock) -> None:
    """A loader below its limit can still use all the time there is."""
    dog.begin_rounds()
    clock.sleep(ROUNDS_S)
    dog.note_wait(clock())
    clock.sleep(1.0)
    assert re.search(r"\b0 batches, and waits for the loader\.", alarm_of(dog).message)


def test_a_thread_that_died_is_part_of_a_hang(dog: Watchdog) -> None:
    """The exception of a loader's thread is in the message; the former hook still gets it."""
    heard: list[Any] = []
    before, threading.excepthook = threading.excepthook, heard.append
    try:
        with dog:
            thread = threading.Thread(target=lambda: [][0], name="reader")
            thread.start()
            thread.join()
            message = "\n".join(dog._loader_lines())
        assert threading.excepthook == heard.append
    finally:
        threading.excepthook = before
    assert re.search(r"reader ended: IndexError: .*\n  File", message)
    assert len(heard) == 1


TARGETS = Path(session_targets.__file__)
HASTY = """
import sys
from netpipe.jobs import child, watchdog
watchdog.OVERTIME_S = 1.0
watchdog._GIL_GRACE_S = 0.5
child.main()
"""
LOOPS = """
import ctypes, time

def endless(batches, state, step):
    for batch in batches:
        state, _ = step(state, batch)
    while True:
        time.sleep(0.01)

def deaf(batches, state, step, calls=40):
    if calls:
        return deaf(batches, state, step, calls - 1)
    ctypes.PyDLL(None).sleep(1000)  # with the GIL held
"""
CAPTURED = """
import os
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # as pytest does, into a file of its own
"""


@pytest.fixture
def hasty(tmp_path: Path) -> Callable[..., None]:
    """Measure with a loop of LOOPS in a session that has one second of overtime."""
    (tmp_path / "hasty_loops.py").write_text(LOOPS)

    def run(loop: str, before: str = "") -> None:
        loops = f"{tmp_path}/hasty_loops.py"
        targets = name_targets(loader=f"{TARGETS}:tiny_loader", loop=f"{loops}:{loop}")
        request = MeasureRequest(targets=targets, accelerator="emulated:5ms", budget_s=0.5)
        run_measurement([sys.executable, "-c", before + HASTY], request)

    return run


def test_a_loop_that_never_returns_is_ended(hasty: Callable[..., None]) -> None:
    """The session ends after its overtime, and the message names the loop and its line."""
    with pytest.raises(HangError, match="the rounds did not end") as caught:
        hasty("endless")
    assert "hasty_loops.py" in str(caught.value)


def test_a_loop_that_holds_the_interpreter_is_ended(hasty: Callable[..., None]) -> None:
    """If no Python thread can run, the process is ended and its stack is in the error."""
    with pytest.raises(SessionError, match="last lines") as caught:
        hasty("deaf", CAPTURED)
    assert 'hasty_loops.py", line 13 in deaf' in str(caught.value)
