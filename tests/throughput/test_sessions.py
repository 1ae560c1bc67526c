"""Sessions in turns."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from netpipe.errors import HangError, MisuseError, SessionError
from netpipe.results import documents
from netpipe.session import parent
from netpipe.session.request import SessionRequest
from netpipe.session.result_files import SCHEMA
from netpipe.throughput import sessions
from netpipe.throughput.sessions import expected_s, measure_in_turns
from netpipe.throughput.subjects import Foreign
from tests.session import session_targets
from tests.throughput.tallies import make_tally

TARGETS = Path(session_targets.__file__)


def test_combinations_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A B, B A: each gets its own runs, in the order of the rounds."""
    asked: list[str] = []

    def answered(command: Sequence[str], request: SessionRequest) -> dict[str, Any]:
        assert command[1:6] == ["-P", "-m", "netpipe.throughput.child", "--seconds", "3.0"]
        assert request.kind == "throughput"
        assert request.budget_s > 6
        asked.append(command[-1])
        return asdict(make_tally(batches=len(asked)))

    monkeypatch.setattr(sessions, "run_session", answered)
    started: list[tuple[int, str]] = []
    found = measure_in_turns(
        [Foreign("a:a"), Foreign("b:b")],
        2,
        3.0,
        lambda done, subject: started.append((done, subject.label)),
    )
    assert asked == ["a:a", "b:b", "b:b", "a:a"]
    assert started == list(enumerate(asked))
    assert [[run.batches for run in runs] for runs in found] == [[1, 4], [2, 3]]


def test_more_takes_longer() -> None:
    """What is expected grows with subjects, rounds and seconds."""
    one = expected_s(1, 1, 4.0)
    assert one > 4
    assert expected_s(3, 5, 4.0) == pytest.approx(15 * one)
    assert expected_s(1, 1, 8.0) > one + 4


def _measure(target: str) -> list[Any]:
    return measure_in_turns([Foreign(f"{TARGETS}:{target}")], 1, 0.1, lambda *_: None)


def test_a_session_measures_a_target() -> None:
    """A fresh process gives one run, as the schema of its result says."""
    ((run,),) = _measure("tiny_loader")
    assert run.tokens == run.slots == 6 * run.batches
    assert run.peak_rss_bytes >= run.peak_pss_bytes > 0
    document = {"schema": SCHEMA, "throughput": asdict(run)}
    documents.check_document(document, "session.1", "session")


@pytest.mark.parametrize(
    ("target", "error", "words"),
    [
        ("failing_loader", SessionError, "OSError: disk gone"),
        ("no_loader", MisuseError, "must return an iterable of batches; found int"),
        ("nothing", MisuseError, "name must be one of"),
    ],
)
def test_a_loader_that_fails_raises_its_error(
    target: str, error: type[Exception], words: str
) -> None:
    """Not as a failure of the harness, and without waiting for more."""
    with pytest.raises(error, match=words):
        _measure(target)


def test_a_loader_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """It gives no batch within the limit of one, and the command goes on to say so."""

    def impatient(command: Sequence[str], request: SessionRequest) -> dict[str, Any]:
        found: dict[str, Any] = parent.run_session(command, replace(request, batch_limit_s=0.5))
        return found

    monkeypatch.setattr(sessions, "run_session", impatient)
    with pytest.raises(HangError, match=r"no batch for 0\.5 s after 2 batches"):
        _measure("hanging_loader")
