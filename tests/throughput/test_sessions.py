"""Subjects, and their sessions in turns."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from threading import Thread
from threading import enumerate as enumerate_threads
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from netpipe.device.host import this_host
from netpipe.duets import parent as duet_parent
from netpipe.errors import HangError, MisuseError, SessionError
from netpipe.jobs import parent
from netpipe.jobs.parent import CHILD_COMMAND
from netpipe.jobs.registry import import_factories, run_job
from netpipe.jobs.request import SessionRequest, read_result
from netpipe.jobs.targets import Target
from netpipe.judge import reading, reading_job
from netpipe.results import documents
from netpipe.throughput import sessions, throughput_job
from netpipe.throughput.document import Throughput, throughput_document
from netpipe.throughput.sessions import Subject, expected_s, measure_duets, measure_in_turns
from netpipe.throughput.throughput_request import ThroughputRequest
from tests.jobs import session_targets
from tests.measurements import CPU
from tests.sessions_here import sessions_here as sessions_here
from tests.throughput.tallies import make_tally


def _subject(name: str, workers: int | None = None) -> Subject:
    return Subject(Target(session_targets.__file__, name), workers)


@pytest.fixture
def served_here(monkeypatch: pytest.MonkeyPatch, sessions_here: Callable[..., Any]) -> None:
    """Serve the runs and the readings of loaders in the process of the test."""
    for module in (sessions, reading):
        monkeypatch.setattr(module, "run_session", sessions_here)


@pytest.fixture
def duets_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Serve both sides of a duet in threads of this process."""
    threads = list[Thread]()

    @contextmanager
    def open_session(
        _: object, request: SessionRequest, *__: object, **___: object
    ) -> Iterator[Any]:
        # The stacks of a session lie beside its result.
        folder = tmp_path / str(len(threads))
        folder.mkdir()
        result = folder / "result"
        asked = replace(request, channel=os.dup(request.channel), result=str(result))
        thread = Thread(target=lambda: run_job(asked, lambda: import_factories(asked)))
        thread.start()
        threads.append(thread)

        def read(*, is_early: bool) -> Any:
            assert is_early  # the user need not wait until the other side's process has ended
            thread.join(30.0)
            return read_result(result)

        yield SimpleNamespace(is_over=lambda: not thread.is_alive(), result=read)

    monkeypatch.setattr(duet_parent, "open_session", open_session)
    yield
    for thread in threads:
        thread.join(30.0)
    assert not any(thread.is_alive() for thread in threads)


def test_combinations_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A B, B A: each gets its own runs, in the order of the rounds."""
    asked: list[str] = []

    def answer(command: Sequence[str], request: ThroughputRequest) -> dict[str, Any]:
        assert command == CHILD_COMMAND
        assert request.seconds == 3.0
        assert request.budget_s > 6
        asked.append(str(request.targets["loader"]))
        return asdict(make_tally(batches=len(asked)))

    monkeypatch.setattr(sessions, "run_session", answer)
    started: list[tuple[int, str]] = []
    found = measure_in_turns(
        [Subject(Target("a", "a")), Subject(Target("b", "b"))],
        2,
        3.0,
        lambda done, subject: started.append((done, subject.label)),
    )
    assert asked == ["a:a", "b:b", "b:b", "a:a"]
    assert started == list(enumerate(asked))
    assert [[run.batches for run in runs] for runs in found] == [[1, 4], [2, 3]]


def test_more_takes_longer() -> None:
    """The expected time grows with runs and seconds."""
    one = expected_s(1, 4.0)
    assert one > 4
    assert expected_s(15, 4.0) == pytest.approx(15 * one)
    assert expected_s(1, 8.0) > one + 4


def _measure(target: str) -> list[Any]:
    return measure_in_turns([_subject(target)], 1, 0.1, lambda *_: None)


def test_a_session_measures_a_target() -> None:
    """A fresh process gives one run, whose document follows the schema."""
    ((run,),) = _measure("tiny_loader")
    assert run.tokens == run.slots == 6 * run.batches
    assert run.peak_rss_bytes >= run.peak_pss_bytes > 0
    found = Throughput(None, 0.1, [_subject("tiny_loader")], [[run]])
    document = throughput_document(found, CPU, this_host(), {})
    documents.check_document(document, "throughput.1", "document")


@pytest.mark.usefixtures("served_here")
@pytest.mark.parametrize(
    ("target", "error", "words"),
    [
        ("failing_loader", SessionError, "OSError: disk gone"),
        ("no_loader", MisuseError, "found int"),
        ("nothing", MisuseError, "name.*one of"),
    ],
)
def test_a_loader_that_fails_raises_its_error(
    target: str, error: type[Exception], words: str
) -> None:
    """The error of a loader is raised with its own type."""
    with pytest.raises(error, match=words):
        _measure(target)


def test_a_loader_that_hangs_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader that gives no batch within the limit is a HangError."""

    def impatient(command: Sequence[str], request: SessionRequest) -> dict[str, Any]:
        found: dict[str, Any] = parent.run_session(command, replace(request, batch_limit_s=0.5))
        return found

    monkeypatch.setattr(sessions, "run_session", impatient)
    with pytest.raises(HangError, match=r" 0\.5 s after 2 batches"):
        _measure("hanging_loader")


def _measure_beside(target: str, other: str, same_batches: int = 0) -> list[Any]:
    subjects = [_subject(target)]
    return measure_duets(subjects, _subject(other), 1, 0.1, lambda *_: None, same_batches)


@pytest.mark.usefixtures("served_here")  # the readings, but not the duet
def test_two_loaders_are_measured_in_turns() -> None:
    """Both give a whole run, and each in its own process."""
    (((own, other),),) = _measure_beside("tiny_loader", "chosen_loader", same_batches=3)
    assert own.tokens == own.slots == 6 * own.batches
    assert other.examples == 2 * other.batches
    assert min(own.wall_s, other.wall_s) >= 0.1
    assert own != other


@pytest.mark.usefixtures("served_here", "duets_here")
@pytest.mark.parametrize(
    ("other", "same_batches", "words"),
    [
        ("wide_loader", 0, r"found x as int32\[2,3\] from .*tiny_loader and as int64\[2,3\]"),
        ("counting_loader", 2, "same first 2 batches; found the first batches: batch 1 first"),
    ],
)
def test_loaders_of_other_batches_are_not_compared(
    other: str, same_batches: int, words: str
) -> None:
    """Comparing other batches would say nothing; the first array or batch that differs is named."""
    with pytest.raises(MisuseError, match=words):
        _measure_beside("tiny_loader", other, same_batches)


@pytest.mark.usefixtures("served_here")
def test_the_other_loader_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every combination gives the same batches as the same reading."""
    asked: list[Subject] = []
    read = sessions._read

    def counted(subject: Subject, batches: int) -> Any:
        asked.append(subject)
        return read(subject, batches)

    monkeypatch.setattr(sessions, "_read", counted)
    monkeypatch.setattr(sessions, "_run_duet", lambda *_: (make_tally(), make_tally()))
    subjects, other = [_subject("tiny_loader")] * 2, _subject("chosen_loader")
    measure_duets(subjects, other, 1, 0.1, lambda *_: None, same_batches=2)
    assert asked == [other, *subjects]


@pytest.mark.parametrize("module", [throughput_job, reading_job])
def test_a_loader_with_workers_is_made_under_the_watchdog(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: ModuleType
) -> None:
    """Making it may hang, such as on a file system that does not answer."""
    watched: list[bool] = []

    def choose(factory: Any, *_: object) -> Any:
        watched.append(any(thread.name == "netpipe-watchdog" for thread in enumerate_threads()))
        return factory

    monkeypatch.setattr(module, "choose_workers", choose)
    kind = ThroughputRequest if module is throughput_job else reading.ReadRequest
    target = {"loader": _subject("tiny_loader").target}
    request = kind(targets=target, workers=1, result=str(tmp_path / "result"))
    run_job(request, lambda: import_factories(request))
    assert watched == [True]


@pytest.mark.usefixtures("duets_here")
def test_a_loader_that_fails_beside_another_is_named() -> None:
    """The error says which of the two failed."""
    with pytest.raises(SessionError, match=r"failing_loader failed: .*disk gone"):
        _measure_beside("tiny_loader", "failing_loader")


@pytest.mark.usefixtures("served_here")
def test_workers_are_a_parameter_or_of_a_grain_pipeline() -> None:
    """A target that takes `workers` gets them; one that cannot be given any is refused."""
    ((run,),) = measure_in_turns([_subject("chosen_loader", 3)], 1, 0.1, lambda *_: None)
    assert run.examples == 3 * run.batches
    with pytest.raises(MisuseError, match="must have a parameter `workers`"):
        measure_in_turns([_subject("tiny_loader", 1)], 1, 0.1, lambda *_: None)
