"""The study of `netpipe.watch`: its cases, and what counts as a wrong answer."""

from contextlib import nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from netpipe.errors import NetpipeError
from netpipe.verdict.kinds import VerdictKind
from netpipe.watching.logs import Log
from netpipe.watching.window import Window
from perf_tests.studies.faults.catalogue import CASES
from perf_tests.studies.faults.parts.batches import Batch
from perf_tests.studies.watching import memory, training, trials
from perf_tests.studies.watching.__main__ import format_table
from perf_tests.studies.watching.training import (
    BECOMES_SLOW,
    SLOW_HOST,
    STEADY,
    SYNCED,
    BecomesSlow,
    TrainingRequest,
)
from perf_tests.studies.watching.trials import QUESTIONS, Trial, recognised_cases, run
from tests.watching.windows import make_window

FAULTS = {case.name: case for case in recognised_cases()}


def windows_of(*kinds: str) -> list[Window]:
    """Make windows of 200 batches with the kinds."""
    verdict = make_window().verdict
    return [
        make_window(number, verdict=replace(verdict, kind=VerdictKind(kind)))
        for number, kind in enumerate(kinds)
    ]


@pytest.mark.parametrize(
    ("kinds", "problems"),
    [
        (("healthy", "healthy", "loader-bound", "loader-bound"), []),
        (("healthy", "healthy", "inconclusive", "loader-bound"), []),
        (("healthy", "healthy", "healthy", "healthy", "loader-bound"),
         ["planted in window 2, named in 4"]),
        (("healthy", "jitter", "loader-bound"), ["called jitter before"]),
        (("healthy", "healthy", "healthy"), ["planted in window 2, named in None"]),
    ],
)  # fmt: skip
def test_a_slowdown_is_named_in_time(
    kinds: tuple[str, ...], problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must be named at the end of its window or of the next one, and not before."""
    monkeypatch.setattr(trials, "_train", lambda *_: [windows_of(*kinds)])
    assert trials._find_slowdown(BECOMES_SLOW, {"at": 500}, 1, Path()).problems == problems


@pytest.mark.parametrize(
    ("kind", "problems"),
    [("loader-bound", ()), ("inconclusive", ()), ("healthy", ("called healthy",))],
)
def test_a_fault_is_not_called_healthy(
    kind: str, problems: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An inconclusive answer is open, and not wrong."""
    idle = {"loader-bound": 0.3, "inconclusive": 0.06, "healthy": 0.0}[kind]
    monkeypatch.setattr(trials, "_train", lambda *_: [[make_window(idle=idle)]])
    trial = run("faults", FAULTS["slow-map"], 1)
    assert (trial.called, trial.problems) == (kind, problems)
    assert trial.is_open == (kind == "inconclusive")


def test_the_cases_are_those_that_a_watcher_recognises() -> None:
    """Loops that force a sync beside a loader that waits are left out; controls are not."""
    assert {case.name for case in SYNCED} < {*FAULTS}
    assert "fine-on-a-cpu" in FAULTS
    kinds = {kind for case in FAULTS.values() for kind in case.kinds}
    assert kinds == {"healthy", "loader-bound", "jitter", "contention", "forced-sync"}
    assert {case.name for case in CASES} - {*FAULTS} >= {"sync-float", "shared-cores", "at-risk"}


def test_a_loader_becomes_slow() -> None:
    """Batches take longer from the given one on."""
    delay = BecomesSlow(0.01, 0.05, at=3)
    assert [delay(number) for number in range(5)] == [0.01, 0.01, 0.01, 0.05, 0.05]


def test_a_training_goes_through_several_epochs() -> None:
    """A loader that can begin again does; an iterator ends."""
    batches: list[Batch] = [{}, {}]
    assert len([*islice(training._repeat(batches), 5)]) == 5
    assert len([*training._repeat(iter(batches))]) == 2


def test_a_training_is_watched(tmp_path: Path) -> None:
    """The windows of a process come back; its loop reads each result before it goes on."""
    values = {"step_s": 0.012, "load_ratio": 0.5}
    log = str(tmp_path / "run.jsonl")
    ((window,),) = trials._train(
        TrainingRequest("sync-float-computing", values, log, 60.0, steps=20)
    )
    assert window.figures.batches == 20
    assert window.figures.synced_fraction is not None
    assert window.figures.synced_fraction > 0.5


def test_memory_is_read_ten_times(tmp_path: Path) -> None:
    """All steps are watched; the simulated clock moves by 20 ms for each."""
    log = tmp_path / "run.jsonl"
    assert len(memory.main(1000, str(log))) == 10
    windows = [*Log(log).read()]
    assert sum(window.figures.batches for window in windows) == 1000
    assert sum(window.figures.seconds for window in windows) == pytest.approx(20)


def test_memory_must_stay_flat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Growth after the first tenth counts."""
    for held, grown in (([9, 10**8, 10**8], ["99,999,991 bytes more"]), ([10**8, 10**8 + 9], [])):
        monkeypatch.setattr(trials, "run_for_json", lambda *_, held=held: {"held_bytes": held})
        assert trials._check_memory(STEADY, {}, 1, tmp_path).problems == grown


@pytest.mark.parametrize(
    ("kinds", "problems"),
    [
        (("healthy", "inconclusive"), []),
        (("healthy", "jitter", "healthy"), ["window 1: jitter"]),
    ],
)
def test_a_healthy_run_must_not_be_blamed(
    kinds: tuple[str, ...], problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A single window with an alarm is wrong."""
    monkeypatch.setattr(trials, "_train", lambda *_: [windows_of(*kinds)])
    monkeypatch.setattr(trials, "busy_core", nullcontext)
    assert trials._stay_healthy(STEADY, {}, 1, Path()).problems == problems


@pytest.mark.parametrize(("slow", "problems"), [(1, []), (0, ["process-1 was not named"])])
def test_the_slow_host_must_be_named(
    slow: int, problems: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An odd seed makes the second process slow."""
    idle = [0.5 if number == slow else 0.0 for number in range(2)]
    monkeypatch.setattr(trials, "_train", lambda *_: [[make_window(0, each)] for each in idle])
    assert trials._name_host(SLOW_HOST, {"load_ratio": 2.0}, 1, Path()).problems == problems


def test_a_training_that_fails_is_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The study goes on, and the trial has the reason."""

    def fail(*_: object) -> None:
        raise NetpipeError("the training ended with 1: no memory")

    monkeypatch.setattr(trials, "_train", fail)
    trial = run("faults", FAULTS["slow-map"], 1)
    assert (trial.called, trial.is_open) == ("error", False)
    assert trial.problems == ("the training ended with 1: no memory",)


def test_the_table_counts_open_answers_apart() -> None:
    """Wrong answers are listed with their cases."""
    trial = Trial(
        "faults", "slow-map", 1, {}, "abc", "a host", "now", 60.0, "loader-bound", "", ()
    )  # fmt: skip
    is_open = replace(trial, called="inconclusive")
    wrong = replace(trial, called="healthy", problems=("called healthy",))
    lines = [*format_table([trial, trial, is_open, wrong])]
    assert lines[2].startswith("| faults | 4 | 2 of 3, 66.7%")
    assert lines[2].endswith("| 1 | slow-map: called healthy |")
    assert lines[3] == "| slowdown | 0 | - | 0 |  |"
    assert len(lines) == 2 + len(QUESTIONS)
