"""How far a session is: said in its process, heard by whoever waits for it."""

import sys
import time
from pathlib import Path

import pytest

from netpipe.harness.errors import SessionError
from netpipe.harness.progress import Follower, Progress, Teller
from netpipe.harness.session import SessionRequest, answered, linted, measured
from tests.harness.fakes import FakeClock
from tests.harness.measurements import make_measurement

CHILD = """\
import json, os, pathlib, time
from netpipe.harness.clock import MonotonicClock
from netpipe.harness.progress import Teller
from netpipe.harness.session import progress_file, request_here, write_result
request = request_here()
doing = Teller(progress_file(request), MonotonicClock()).doing
def heard(what):
    while not pathlib.Path({here!r}, what).exists():
        time.sleep(0.01)
"""


@pytest.fixture
def clock() -> FakeClock:
    """A clock at 0."""
    return FakeClock()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a session says how far it is."""
    return tmp_path / "progress.json"


class Ear:
    """Notes what it is told, and leaves a file for each thing done, so that a child can go on."""

    def __init__(self, here: Path) -> None:
        self.heard: list[Progress] = []
        self._here = here

    def __call__(self, progress: Progress) -> None:
        """Note it."""
        self.heard.append(progress)
        (self._here / progress.doing).touch()


@pytest.fixture
def ear(tmp_path: Path) -> Ear:
    """Nobody has told anything yet."""
    return Ear(tmp_path)


def test_time_counts_from_when_the_whole_is_known(file: Path, clock: FakeClock, ear: Ear) -> None:
    """While nobody knows how long it takes nothing is done of it; from then on it is."""
    teller, follower = Teller(file, clock), Follower(file, ear, clock)
    for what, of_s in (("compile", 0.0), ("warm up", 0.0), ("round 1", 20.0), ("round 2", 21.0)):
        teller.doing(what, of_s)
        follower.look()
        clock.sleep(3.0)
    assert ear.heard == [
        Progress("compile"),
        Progress("warm up"),
        Progress("round 1", 0.0, 20.0),
        Progress("round 2", 3.0, 21.0),
    ]


def test_what_lasts_is_told_again_with_the_time_that_passed(
    file: Path, clock: FakeClock, ear: Ear
) -> None:
    """A display that is told twice a second moves on, up to the end and no further."""
    teller, follower = Teller(file, clock), Follower(file, ear, clock)
    teller.doing("rounds", 1.2)
    for _ in range(8):
        follower.look()
        clock.sleep(0.25)
    assert [one.done_s for one in ear.heard] == [0.0, 0.5, 1.0, 1.2]
    assert {one.of_s for one in ear.heard} == {1.2}


def test_nothing_is_told_before_a_session_says_something(
    file: Path, clock: FakeClock, ear: Ear
) -> None:
    """A process that still imports, or one of a version that says nothing, is silent."""
    Follower(file, ear, clock).look()
    assert ear.heard == []


def test_a_folder_that_is_gone_loses_no_measurement(tmp_path: Path, clock: FakeClock) -> None:
    """What a person watches is worth less than what is measured."""
    Teller(tmp_path / "gone" / "progress.json", clock).doing("rounds", 1.0)


def command(here: Path, rest: str) -> list[str]:
    """Give the command of a child that tells how far it is."""
    return [sys.executable, "-c", CHILD.format(here=str(here)) + rest]


@pytest.mark.parametrize("kind", ["measure", "lint", "other"])
def test_a_session_is_heard_while_it_runs(tmp_path: Path, ear: Ear, kind: str) -> None:
    """Each thing that a child does is told to the one who waits, in order, before the result."""
    made = make_measurement()
    document = {"measurement": made.to_document(), "lint": {"a": 1}, "other": {"b": 2}}
    rest = (
        "doing('first'); heard('first')\n"
        "doing('second', 600.0); heard('second')\n"
        f"write_result(request, {document!r})"
    )
    request, child = SessionRequest(kind), command(tmp_path, rest)
    if kind == "measure":
        assert measured(child, request, progress=ear) == made
    else:
        ask = linted if kind == "lint" else answered
        assert ask(child, request, progress=ear) == document[kind]
    told = list(dict.fromkeys((one.doing, one.of_s) for one in ear.heard))
    assert told == [("first", 0.0), ("second", 600.0)]


def test_who_listens_and_fails_ends_the_session(tmp_path: Path) -> None:
    """An error in a display is not swallowed, and leaves no child behind."""
    rest = "(pathlib.Path({!r}) / 'pid').write_text(str(os.getpid())); doing('a'); time.sleep(600)"

    def fail(_: Progress) -> None:
        raise SessionError("no display")

    child = command(tmp_path, rest.format(str(tmp_path)))
    with pytest.raises(SessionError, match="no display"):
        linted(child, SessionRequest("lint"), progress=fail)
    assert not Path("/proc", (tmp_path / "pid").read_text()).exists()
