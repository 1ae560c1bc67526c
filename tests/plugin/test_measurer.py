"""The measurer of a run, without pytest."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from netpipe.errors import HangError, NetpipeError
from netpipe.jobs.request import SessionRequest
from netpipe.plugin.measurer import Measurer
from netpipe.plugin.options import Options
from netpipe.plugin.session_nodes import Subject
from netpipe.plugin.sessions import Jobs
from netpipe.results.measurement import Measurement
from tests.plugin.recorded import loader_bound, open_question, recorded

SUBJECT = Subject(("key",), "auto", ["command"], "test_perf.py::test_first")
EMULATED = Subject(("key",), "emulated:5ms", ["command"], "test_perf.py::test_first")


@dataclass
class Sessions:
    """Sessions that give prepared measurements, one after the other."""

    coming: list[Measurement | NetpipeError]
    requests: list[Any] = field(default_factory=list)

    def measure(self, _: Sequence[str], request: SessionRequest, **__: object) -> Measurement:
        """Replace a session."""
        self.requests.append(request)
        found = self.coming.pop(0)
        if isinstance(found, NetpipeError):
            raise found
        return found


def measuring(
    *coming: Measurement | NetpipeError, compares: bool = False, **options: Any
) -> tuple[Measurer, Sessions]:
    """Return a measurer with these sessions, and the sessions."""
    sessions = Sessions(list(coming))
    jobs = Jobs(measure=sessions.measure)
    return Measurer(Options(**options), compares, lambda _: None, jobs), sessions


def test_a_subject_is_measured_once() -> None:
    """The sessions of a subject are shared; another accelerator is another subject."""
    measurer, sessions = measuring(recorded(), recorded(load_s=0.02))
    assert measurer.measure(SUBJECT) == measurer.measure(SUBJECT) == (recorded(),)
    assert measurer.measure(EMULATED) == (recorded(load_s=0.02),)
    assert [request.accelerator for request in sessions.requests] == ["auto", "emulated:5ms"]


@pytest.mark.parametrize(
    ("second", "finding", "message"),
    [
        (loader_bound(), "verdict-confirmed", "first loader-bound, then loader-bound"),
        (recorded(), "verdict-not-confirmed", "first loader-bound, then healthy"),
    ],
)
def test_a_bad_verdict_is_confirmed(second: Measurement, finding: str, message: str) -> None:
    """The second session counts, and a finding tells both verdicts."""
    measurer, sessions = measuring(loader_bound(), second)
    (measured,) = measurer.measure(SUBJECT)
    assert measured.headroom == second.headroom
    assert (measured.findings[-1].name, measured.findings[-1].message) == (finding, message)
    assert len(sessions.requests) == 2


def test_a_failure_is_raised_again() -> None:
    """A subject whose session failed is not measured again."""
    measurer, sessions = measuring(HangError("no batch"))
    for _ in range(2):
        with pytest.raises(HangError, match="no batch"):
            measurer.measure(SUBJECT)
    assert len(sessions.requests) == 1


@pytest.mark.parametrize(
    ("compares", "options", "rules"),
    [
        (False, {}, ["clear"]),
        (True, {}, ["clear", "compared"]),
        (False, {"record": "first", "sessions": 1}, ["clear", "compared"]),
    ],
    ids=["neither", "compared", "recorded"],
)
def test_a_session_that_ended_early_is_not_gated(
    compares: bool, options: dict[str, Any], rules: list[str]
) -> None:
    """A benchmark after a test of the verdict alone has sessions that can be compared."""
    measurer, sessions = measuring(recorded(), recorded(), compares=compares, **options)
    measurer.measure(EMULATED)
    measurer.benchmark("test_load", EMULATED)
    assert [request.stopping_rule for request in sessions.requests] == rules


@pytest.mark.parametrize(("known", "rule"), [((), "compared"), (("auto",), "clear")])
def test_times_without_a_baseline_end_early(known: tuple[str, ...], rule: str) -> None:
    """The session is shared with the tests of the verdict then."""
    measurer, sessions = measuring(recorded(), compares=True)
    measurer.without_baseline.update(known)
    measurer.benchmark("test_load", SUBJECT)
    measurer.measure(SUBJECT)
    assert [request.stopping_rule for request in sessions.requests] == [rule]


def test_a_recording_ends_at_a_session_that_cannot_be_recorded() -> None:
    """The remaining sessions would be refused with it."""
    measurer, sessions = measuring(recorded(), *[open_question()] * 9, record="a", sessions=9)
    assert len(measurer.benchmark("test_load", SUBJECT)) == 2
    assert len(sessions.requests) == 3


@pytest.mark.parametrize(
    ("compares", "options", "sessions"),
    [(False, {}, 2), (True, {}, 6), (False, {"record": "first", "sessions": 10}, 20)],
)
def test_the_sessions_of_a_subject_have_a_limit(
    compares: bool, options: dict[str, Any], sessions: int
) -> None:
    """The limit allows for one confirmation, for a comparison, or for a recording."""
    measurer, _ = measuring(compares=compares, **options)
    assert measurer.sessions_limit_s == 1895 + (sessions - 1) * (20 + 10 + 60)
