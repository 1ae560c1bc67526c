"""The time that the sessions of a subject share, and messages about slow ones."""

import pytest

from netpipe.errors import OutOfTimeError
from netpipe.jobs.progress import Progress
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.plugin.sessions import LongPhases, TimeLimit, limit_s
from tests.fakes import FakeClock

REQUEST = MeasureRequest(budget_s=20.0, start_limit_s=60.0)


def test_a_further_session_adds_its_rounds_and_a_minute() -> None:
    """One session has all its limits; each further one adds its rounds and a minute."""
    assert limit_s(REQUEST, 1) == REQUEST.limit_s == 815.0
    assert limit_s(REQUEST, 3) == 815.0 + 2 * (20 + 10 + 60)


def test_each_session_has_what_is_left() -> None:
    """Sessions are cut off at the limit, and none starts too late."""
    clock = FakeClock()
    limit = TimeLimit(500.0, clock)
    given_s: list[float] = []

    def measure(request: MeasureRequest) -> None:
        given_s.append(request.limit_s)
        clock.sleep(200.0)

    limit.run(REQUEST, measure)
    assert limit.remark == ""
    clock.sleep(1000.0)  # time of other tests does not count
    limit.run(REQUEST, measure)
    assert limit.remark == "; at most 100 s are left"
    with pytest.raises(OutOfTimeError, match=r"400 .*500 s"):
        limit.run(REQUEST, measure)
    assert given_s == [500.0, 300.0]


def test_a_phase_that_takes_long_is_said_now_and_then() -> None:
    """A phase of unknown length is reported from time to time; the time of every one is kept."""
    clock, said = FakeClock(), list[str]()
    drawn = list[str]()
    hear = LongPhases(said.append, drawn.append, clock)
    for second in range(40):
        hear(Progress("waiting for the first batch", detail=f"{second} s so far"))
        clock.sleep(1.0)
    for _ in range(40):
        hear(Progress("rounds", of_s=40.0))
        clock.sleep(1.0)
    expected = [f"waiting for the first batch, {second} s so far" for second in (15, 30)]
    assert said == expected
    assert drawn[39] == "waiting for the first batch, 39 s so far"
    assert drawn[40:42] == ["rounds, 0:40 left"] * 2
    assert hear.describe() == "waiting for the first batch 40 s, rounds 40 s"
    assert drawn[-1] == ""
