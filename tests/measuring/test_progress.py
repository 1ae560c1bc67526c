"""The progress of a session: written by its process, read by its parent."""

import sys
from pathlib import Path
from threading import Thread

import pytest

from netpipe.errors import SessionError
from netpipe.jobs import progress
from netpipe.jobs.heartbeat import Watch
from netpipe.jobs.parent import run_measurement, run_session
from netpipe.jobs.progress import Progress, ProgressReader, ProgressWriter
from netpipe.jobs.request import SessionRequest
from netpipe.linting.lint_request import LintRequest
from netpipe.measuring.measure_request import MeasureRequest
from tests.fakes import FakeClock
from tests.measurements import make_measurement
from tests.measuring.conftest import LOAD_S, STEP_S, Rehearse

CHILD = """\
import json, os, pathlib, time
from netpipe.clock import Clock
from netpipe.jobs.progress import ProgressWriter
from netpipe.jobs.registry import read_request
from netpipe.jobs.request import progress_file, write_result
request = read_request()
doing = ProgressWriter(progress_file(request), Clock()).enter_phase
def wait_until_seen(what):
    deadline = time.monotonic() + 30
    while not pathlib.Path({here!r}, what).exists() and time.monotonic() < deadline:
        time.sleep(0.01)
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of the progress."""
    return tmp_path / "progress.json"


class Recorder:
    """Notes the progress, and makes a file for each phase, for which the child waits."""

    def __init__(self, here: Path) -> None:
        self.seen: list[Progress] = []
        self._here = here

    def __call__(self, progress: Progress) -> None:
        """Note it."""
        self.seen.append(progress)
        (self._here / progress.doing).touch()


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """A recorder without notes."""
    return Recorder(tmp_path)


def test_the_remaining_time_needs_a_known_total(
    file: Path, clock: FakeClock, recorder: Recorder
) -> None:
    """Elapsed time counts only from the first known total."""
    writer, reader = ProgressWriter(file, clock), ProgressReader(file, recorder, clock)
    for detail, of_s in (("compile", 0.0), ("warm up", 0.0), ("round 1", 20.0), ("2", 21.0)):
        writer.enter_phase("measuring", of_s, detail)
        reader.poll()
        clock.sleep(3.0)
    assert recorder.seen == [
        Progress("measuring", 0.0, 0.0, "compile"),
        Progress("measuring", 0.0, 0.0, "warm up"),
        Progress("measuring", 0.0, 20.0, "round 1"),
        Progress("measuring", 3.0, 21.0, "2"),
    ]


def test_threads_write_one_after_the_other(
    file: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watchdog and the main thread do not write the file at once."""
    writer, writing, counts = ProgressWriter(file, clock), [0], []
    other = Thread(target=writer.enter_phase, args=["making the step"])

    def write(*_: object, **__: object) -> None:
        writing[0] += 1
        counts.append(writing[0])
        if len(counts) == 1:
            other.start()
            other.join(0.2)
        writing[0] -= 1

    monkeypatch.setattr(progress, "write_whole", write)
    writer.enter_phase("making the loader")
    other.join()
    assert counts == [1, 1]


def test_a_long_activity_is_repeated_with_its_elapsed_time(
    file: Path, clock: FakeClock, recorder: Recorder
) -> None:
    """The progress is passed on twice a second, up to its total."""
    writer, reader = ProgressWriter(file, clock), ProgressReader(file, recorder, clock)
    writer.enter_phase("rounds", 1.2)
    for _ in range(8):
        reader.poll()
        clock.sleep(0.25)
    assert [progress.done_s for progress in recorder.seen] == [0.0, 0.5, 1.0, 1.2]
    assert {progress.of_s for progress in recorder.seen} == {1.2}


def test_a_folder_that_is_gone_loses_no_measurement(tmp_path: Path, clock: FakeClock) -> None:
    """Progress that cannot be written does not fail."""
    ProgressWriter(tmp_path / "gone" / "progress.json", clock).enter_phase("rounds", 1.0)


def command(here: Path, rest: str) -> list[str]:
    """Return the command of a child that writes its progress."""
    return [sys.executable, "-c", CHILD.format(here=str(here)) + rest]


@pytest.mark.parametrize("kind", ["measure", "lint"])
def test_progress_arrives_while_the_session_runs(
    tmp_path: Path, recorder: Recorder, kind: str
) -> None:
    """The parent gets every phase, in order, before the result."""
    made = make_measurement()
    result = made.to_document() if kind == "measure" else {"a": 1}
    rest = (
        "wait_until_seen('starting a process')\n"
        "doing('first'); wait_until_seen('first')\n"
        "doing('second', 600.0); wait_until_seen('second')\n"
        f"write_result(request, {{{kind!r}: {result!r}}})"
    )
    child = command(tmp_path, rest)
    if kind == "measure":
        assert run_measurement(child, MeasureRequest(), progress=recorder) == made
    else:
        assert run_session(child, SessionRequest(kind), progress=recorder) == result
    phases = list(dict.fromkeys((progress.doing, progress.of_s) for progress in recorder.seen))
    assert phases == [("starting a process", 0.0), ("first", 0.0), ("second", 600.0)]


def test_a_failing_listener_ends_the_session(tmp_path: Path) -> None:
    """An error in a display is not swallowed, and leaves no child behind."""
    rest = "(pathlib.Path({!r}) / 'pid').write_text(str(os.getpid())); doing('a'); time.sleep(600)"

    def fail(progress: Progress) -> None:
        if progress.doing == "a":
            raise SessionError("no display")

    child = command(tmp_path, rest.format(str(tmp_path)))
    with pytest.raises(SessionError, match="no display"):
        run_session(child, LintRequest(), progress=fail)
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()


class SlowRecorder(Watch):
    """A watch that notes each phase, which takes two seconds."""

    def __init__(self, clock: FakeClock) -> None:
        self.seen: list[tuple[str, float, str]] = []
        self._clock = clock

    def enter_phase(self, phase: str, of_s: float = 0.0, detail: str = "") -> None:
        """Note it."""
        self.seen.append((phase, of_s, detail))
        self._clock.sleep(2.0)


def test_a_measurement_reports_its_phases(rehearse: Rehearse, clock: FakeClock) -> None:
    """The phases come in order, and rounds have a number and a budget."""
    recorder = SlowRecorder(clock)
    found = rehearse(budget_s=60.0, watch=recorder)
    phases = [phase for phase, _, _ in recorder.seen]
    assert list(dict.fromkeys(phases)) == [
        "making the loader",
        "making the step",
        "CPU time of a batch, beside a reference loader's",
        "warming up the step",
        "first estimates",
        "step alone, loading, training",
        "a closer look after the rounds",
        "counting the FLOPs of a step",
    ]
    rounds = [(of_s, detail) for phase, of_s, detail in recorder.seen if phase.startswith("step")]
    assert {of_s for of_s, _ in rounds} == {60.0}
    assert [detail for _, detail in rounds] == [f"round {n + 1}" for n in range(found.step_s.n)]


def test_no_progress_is_reported_inside_timed_windows(rehearse: Rehearse, clock: FakeClock) -> None:
    """The time to report it is in none of the times."""
    found = rehearse(budget_s=60.0, watch=SlowRecorder(clock))
    assert found.load_s_per_batch.high == pytest.approx(LOAD_S)
    assert found.step_s.high == pytest.approx(STEP_S)
    assert found.train_s_per_step.high == pytest.approx(LOAD_S + STEP_S)
