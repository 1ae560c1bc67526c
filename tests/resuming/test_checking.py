"""Whether loaders continue exactly from their states."""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from netpipe.errors import MisuseError, SessionError
from netpipe.jobs.parent import CHILD_COMMAND
from netpipe.jobs.targets import Factories, name_targets
from netpipe.resuming import checking
from netpipe.resuming.checking import ResumeReport, ResumeRequest, check_resume, find_difference
from netpipe.resuming.resume_job import run_loader
from tests.resuming import resume_targets

Check = Callable[[Callable[..., Any]], ResumeReport]


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Check:
    """Return a function that checks a factory, with its runs in this process."""

    def run(factories: Sequence[Any], request: ResumeRequest, *_: object) -> Any:
        try:
            found = run_loader(
                replace(request, result=str(tmp_path / "result")),
                Factories(factories[0]),
                ExitStack(),
            )
        except ValueError as error:
            raise SessionError(str(error)) from error
        return json.loads(json.dumps(found["resume"]))

    monkeypatch.setattr(checking, "run_session", run)
    return lambda factory: check_resume([factory], ResumeRequest(batches=20))  # type: ignore[list-item]


def differences(report: ResumeReport) -> dict[int, str]:
    """Return how each restored run differs, by its offset."""
    return {state.offset: state.difference for state in report.restored}


@pytest.mark.parametrize(
    "factory",
    [
        resume_targets.Batches,
        resume_targets.Stateful,
        resume_targets.map_dataset,
        resume_targets.iter_dataset,
        resume_targets.data_loader,
    ],
)
def test_a_loader_that_goes_on_exactly(check: Check, factory: Callable[..., Any]) -> None:
    """States from the first to the one before the last batch are exact, and have a cost."""
    report = check(factory)
    assert not report.undecided
    assert report.ended
    assert report.batches in (10, 12)
    half = report.batches // 2
    assert differences(report) == dict.fromkeys((0, 1, half, report.batches - 1), "")
    assert not report.differs
    assert all(state.state_bytes > 0 and state.save_s >= 0 for state in report.restored)
    assert all(state.first_batch_s is not None for state in report.restored)
    assert all(state.workers is None for state in report.restored)


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        (resume_targets.Skipping, "skipped: batch 7 came in place of batch 6"),
        (resume_targets.Repeating, "repeated: batch 5 came in place of batch 6"),
        (resume_targets.Reordering, "reordered: batch 11 came in place of batch 6"),
        (resume_targets.Altering, "altered: batch 11 is not in the uninterrupted run"),
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
    assert differences(report)[6] == expected
    assert f"from batch 6 on: {expected}" in str(report)


def test_a_loader_that_does_not_end(check: Check) -> None:
    """The last state is saved where enough batches are left to see a wrong position."""
    report = check(resume_targets.endless)
    assert differences(report) == dict.fromkeys((0, 1, 10, 15), "")
    assert (report.batches, report.ended) == (20, False)


@pytest.mark.parametrize(
    ("factory", "why"),
    [
        (resume_targets.constant, "all are equal"),
        (resume_targets.empty, "no batch"),
        (resume_targets.SpentBySaving, "without interruption: skipped: batch 1 came"),
    ],
)
def test_what_cannot_be_judged(check: Check, factory: Callable[..., Any], why: str) -> None:
    """The result is undecided: neither different nor exact."""
    report = check(factory)
    assert why in report.undecided
    assert report.restored == ()


def test_a_loader_without_a_state_is_refused(check: Check) -> None:
    """The error names the methods that are missing."""
    with pytest.raises(MisuseError, match=r"must have get_state and set_state.*found generator"):
        check(resume_targets.without_state)


def test_other_numbers_of_workers_are_restored(check: Check) -> None:
    """The state in the middle, which two workers saved, is restored with 0, 1 and 4 too."""
    report = check(resume_targets.same_for_workers)
    assert [(state.offset, state.workers) for state in report.restored] == [
        (0, 2), (1, 2), (6, 2), (11, 2), (6, 0), (6, 1), (6, 4)
    ]  # fmt: skip
    assert not report.differs


def test_a_number_of_workers_that_changes_the_order(check: Check) -> None:
    """The changed order is found, and named."""
    report = check(resume_targets.ordered_by_workers)
    wrong = {state.workers for state in report.restored if state.difference}
    assert wrong == {0, 1, 4}
    assert "from batch 6 on with 0 workers: repeated: batch 3 came in place of" in str(report)


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
