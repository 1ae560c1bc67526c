"""Whether loaders continue exactly from their states."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from netpipe.errors import MisuseError, SessionError
from netpipe.jobs.parent import CHILD_COMMAND, ProcessEnvironment
from netpipe.jobs.targets import Factories, name_targets
from netpipe.resuming import checking
from netpipe.resuming.checking import ResumeReport, ResumeRequest, check_resume, find_difference
from netpipe.resuming.resume_job import run_loader
from tests.resuming import resume_targets
from tests.resuming.resume_targets import derive

Check = Callable[..., ResumeReport]


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Check:
    """Return a function that checks a factory, with its runs in this process."""

    @contextmanager
    def open_session(factories: Sequence[Any], request: ResumeRequest, *_: object) -> Iterator[Any]:
        with Connection(os.dup(request.channel)) as channel, ExitStack() as closing:

            @cache
            def run() -> Any:
                held = os.dup(channel.fileno())
                asked = replace(request, result=str(tmp_path / "result"), channel=held)
                try:
                    found = run_loader(asked, Factories(factories[0]), closing)
                except ValueError as error:
                    raise SessionError(str(error)) from error
                return json.loads(json.dumps(found["resume"]))

            yield SimpleNamespace(result=lambda **_: run(), restart_limit=lambda: None)

    monkeypatch.setattr(checking, "open_session", open_session)
    return lambda factory, batches=20: check_resume([factory], ResumeRequest(batches=batches))


def differences(report: ResumeReport) -> dict[tuple[int, int], str]:
    """Return how each restored run differs, by the offset of its state and the earlier restores."""
    return {(state.offset, state.restores): state.difference for state in report.restored}


def exact(middle: int, last: int) -> dict[tuple[int, int], str]:
    """Return the differences of an exact loader."""
    return dict.fromkeys(((0, 0), (1, 1), (1, 2), (middle, 0), (last, 3)), "")


@pytest.mark.parametrize(
    "factory",
    [
        resume_targets.Batches,
        resume_targets.Stateful,
        resume_targets.Buffering,
        resume_targets.map_dataset,
        resume_targets.iter_dataset,
        resume_targets.reader_threads,
        resume_targets.data_loader,
    ],
)
def test_a_loader_that_goes_on_exactly(check: Check, factory: Callable[..., Any]) -> None:
    """States from the first to the one before the last batch are exact, and have a cost."""
    report = check(factory)
    assert not report.undecided
    assert report.ended
    assert report.batches in (10, 12)
    assert differences(report) == exact(report.batches // 2 | 1, report.batches - 1)
    assert not report.differs
    assert all(state.state_bytes > 0 and state.save_s >= 0 for state in report.restored)
    assert all(state.first_batch_s is not None for state in report.restored)
    assert all(state.workers is None for state in report.restored)


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        (resume_targets.Skipping, "skipped: batch 8 came in place of batch 7"),
        (resume_targets.Repeating, "repeated: batch 6 came in place of batch 7"),
        (resume_targets.Reordering, "reordered: batch 11 came in place of batch 7"),
        (resume_targets.Altering, "altered: batch 11 is not in the uninterrupted run"),
        (resume_targets.ForgettingItsShard, "repeated: batch 3 came in place of batch 7"),
        (resume_targets.EndingEarly, "ended early, at batch 11"),
        (resume_targets.EndingLate, "ended late, at batch 12"),
        (resume_targets.Refusing, "failed: this state is of another loader"),
    ],
)
def test_a_loader_that_does_not(check: Check, factory: Callable[..., Any], expected: str) -> None:
    """The first batch that differs is named, with the batch in its place."""
    report = check(factory)
    assert report.differs
    assert not report.undecided
    assert differences(report)[7, 0] == expected
    assert f"from batch 7 on: {expected}" in str(report)


@pytest.mark.parametrize("right", [0, 1, 2, 3])
def test_an_error_after_some_restores(check: Check, right: int) -> None:
    """A restored run saves the next state, and so on; the first difference ends the chain."""
    report = check(derive(resume_targets.WrongAfterRestores, right=right))
    batch = {0: 0, 1: 1, 2: 1, 3: 11}[right]
    wrong = "ended early, at batch 11" if batch == 11 else f"skipped: batch {batch + 1} came in"
    found = {key: difference for key, difference in differences(report).items() if difference}
    assert found[batch, right].startswith(wrong)
    assert found.keys() - {(7, 0)} == {(batch, right)}
    assert f"from batch {batch} on, after {right} restore" in str(report) or not right


@pytest.mark.parametrize(
    ("factory", "where", "expected"),
    [
        (resume_targets.CountingSinceRestore, (1, 2), "repeated: batch 0 came in place of batch 1"),
        (resume_targets.CountingSinceSave, (7, 0), "repeated: batch 6 came in place of batch 7"),
        (resume_targets.ForgettingAtOnce, (1, 2), "repeated: batch 0 came in place of batch 1"),
    ],
)
def test_a_position_of_one_run_only(
    check: Check, factory: Callable[..., Any], where: tuple[int, int], expected: str
) -> None:
    """The position must be right in a restored run too, even before its first batch."""
    assert differences(check(factory))[where] == expected


@pytest.mark.parametrize("chunk", [2, 3, 4, 5, 7, 8, 16, 17])
def test_a_position_of_whole_chunks(check: Check, chunk: int) -> None:
    """No chunk of several batches begins at each position at which a state is saved."""
    rounding = derive(resume_targets.Rounding, chunk=chunk)
    assert check(lambda: rounding(list(range(1000))), batches=32).differs


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        (resume_targets.Producing, "skipped: batch 9 came in place of batch 7"),
        (resume_targets.KeepingBuffers, "repeated: batch 0 came in place of batch 7"),
    ],
)
def test_buffers_that_are_full(check: Check, factory: Callable[..., Any], expected: str) -> None:
    """There is time to fill them before a state is saved, and before it is restored."""
    assert differences(check(factory))[7, 0] == expected


def test_a_state_that_goes_on_changing(check: Check) -> None:
    """It is found at every state, though the state was right when it was saved."""
    report = check(resume_targets.Live)
    assert set(differences(report).values()) == {report.restored[0].difference}
    assert "from batch 7 on: changed: the loader changed the state that it" in str(report)
    assert not check(resume_targets.Renewing).differs
    later = differences(check(resume_targets.LiveLater))
    assert later == {(0, 0): "", (7, 0): "", (1, 1): report.restored[0].difference}


@pytest.mark.parametrize("factory", [resume_targets.Unpicklable, resume_targets.UnpicklableLater])
def test_a_state_that_cannot_be_pickled(check: Check, factory: Callable[..., Any]) -> None:
    """It is refused in one line, or fails the restored run that saved it."""
    try:
        message = differences(check(factory))[0, 0]
    except MisuseError as error:
        message = str(error)
    assert "found dict: TypeError: cannot pickle 'generator' object. Make it of" in message
    assert "\n" not in message


def test_a_short_loader(check: Check) -> None:
    """One batch, and two, are enough for the chain of restored runs."""
    for batches in (1, 2):
        report = check(lambda: resume_targets.Batches(list(range(batches))))  # noqa: B023
        assert [state.restores for state in report.restored if state.offset < 2] == [0, 0, 1, 2, 3]
        assert not report.differs


def test_a_loader_that_does_not_end(check: Check) -> None:
    """The last state is saved where enough batches are left to see a wrong position."""
    report = check(resume_targets.endless)
    assert differences(report) == exact(11, 15)
    assert (report.batches, report.ended) == (20, False)


@pytest.mark.parametrize(
    ("factory", "why"),
    [
        (resume_targets.constant, "all are equal"),
        (resume_targets.empty, "it gives no batch"),
        (resume_targets.one_shard, "the second of two shards gives no batch"),
        (resume_targets.SpentBySaving, "without interruption: skipped: batch 1 came"),
    ],
)
def test_what_cannot_be_judged(check: Check, factory: Callable[..., Any], why: str) -> None:
    """The result is undecided: neither different nor exact."""
    report = check(factory)
    assert why in report.undecided
    assert report.restored == ()


def test_one_run_shows_that_a_loader_cannot_be_judged(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second run would pause before each state that it saves."""
    monkeypatch.setattr(checking, "find_difference", None)  # It compares a second run.
    assert "all are equal" in check(resume_targets.constant).undecided


def test_a_loader_without_a_state_is_refused(check: Check) -> None:
    """The error names the methods that are missing."""
    with pytest.raises(MisuseError, match=r"must have get_state and set_state.*found generator"):
        check(resume_targets.without_state)


def test_other_numbers_of_workers_are_restored(check: Check) -> None:
    """Each run of the chain has another number of workers than the one that saved its state."""
    report = check(resume_targets.same_for_workers)
    assert [(state.offset, state.workers) for state in report.restored] == [
        (0, 0), (1, 1), (1, 4), (7, 2), (11, 2)
    ]  # fmt: skip
    assert not report.differs


def test_a_state_of_a_failed_run_is_not_restored(check: Check) -> None:
    """One worker overwrites the state that it began with; two workers are not blamed for it."""
    report = check(resume_targets.damaged_by_one)
    assert {state.workers for state in report.restored if state.difference} == {1}
    assert report.restored[-1].restores == 3


def test_a_number_of_workers_that_changes_the_order(check: Check) -> None:
    """The changed order is found, and named; with two workers, the chain goes on."""
    report = check(resume_targets.ordered_by_workers)
    wrong = {state.workers for state in report.restored if state.difference}
    assert wrong == {0, 1, 4}
    assert "from batch 0 on with 0 workers: " in str(report)
    assert "from batch 1 on with 2 workers, after 1 restore: exact" in str(report)
    assert report.restored[-1].restores == 3


def _check(factory: str) -> ResumeReport:
    targets = name_targets(loader=f"{resume_targets.__file__}:{factory}")
    return check_resume(CHILD_COMMAND, ResumeRequest(targets=targets))


def test_an_order_that_depends_on_the_hash_seed_is_undecided() -> None:
    """The two uninterrupted runs have different seeds, so they differ."""
    report = _check("hash_seeded")
    assert "other batches each time" in report.undecided
    assert not report.differs


def test_each_state_is_restored_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two uninterrupted runs and each restored one are different processes."""
    monkeypatch.setenv("PROCESSES", str(tmp_path / "processes"))
    report = _check("one_process_each")
    assert not report.differs
    assert len(set((tmp_path / "processes").read_text().split())) == 2 + len(report.restored)


@pytest.mark.parametrize(
    ("platforms", "order"), [("cpu", "+=+" + 5 * "=+-" + "=--"), ("cuda", 7 * "+=-")]
)
def test_a_process_starts_beside_the_run_before(
    monkeypatch: pytest.MonkeyPatch, platforms: str, order: str
) -> None:
    """On a CPU, a process waits for its turn; only one exists if it may need an accelerator.

    "+" starts a process, "=" begins its run with a new time limit, and "-" ends it.
    """
    events = ""

    def restart_limit() -> None:
        nonlocal events
        events += "="

    run = {
        "digests": ["a", "b"], "ended": True, "takes_workers": False, "s_per_batch": 0.0,
        "saves": {"0": (1, 0.0, False), "1": (1, 0.0, False)},
    }  # fmt: skip

    @contextmanager
    def open_session(*_: object) -> Iterator[Any]:
        nonlocal events
        events += "+"
        yield SimpleNamespace(result=lambda **_: run, restart_limit=restart_limit)
        events += "-"

    monkeypatch.setenv("JAX_PLATFORMS", platforms)
    monkeypatch.setattr(checking, "open_session", open_session)
    monkeypatch.setattr(checking, "find_difference", lambda *_: "")
    assert not check_resume([], ResumeRequest()).differs
    assert events == order


@pytest.mark.parametrize(
    ("expected", "found", "difference"),
    [
        ("abcd", "cd", ""),
        ("abcb", "cb", ""),
        ("abcd", "dc", "reordered: batch 3 came in place of batch 2"),
        ("abcdef", "def", "skipped: batch 3 came in place of batch 2"),
        ("abcdef", "bcde", "repeated: batch 1 came in place of batch 2"),
        ("abcabc", "bcab", "repeated: batch 1 came in place of batch 2"),
        ("abcd", "cx", "altered: batch 3 is not in the uninterrupted run"),
        ("abcd", "c", "ended early, at batch 3"),
        ("abcd", "cda", "ended late, at batch 4"),
    ],
)
def test_differences_after_two_batches(expected: str, found: str, difference: str) -> None:
    """A letter is the digest of a batch."""
    assert find_difference(expected, found, 2) == difference


def test_every_run_is_in_the_given_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another version of the project has its own folder and search path."""
    places = list[ProcessEnvironment]()

    def run(_: object, __: object, place: ProcessEnvironment, *___: object) -> None:
        places.append(place)
        raise SessionError("it crashed")

    monkeypatch.setattr(checking, "open_session", run)
    given = ProcessEnvironment(Path("other"), {"PYTHONPATH": "other"})
    with pytest.raises(SessionError):
        check_resume([], ResumeRequest(), None, given)
    assert places == [
        ProcessEnvironment(Path("other"), {"PYTHONPATH": "other", "PYTHONHASHSEED": "0"})
    ]
