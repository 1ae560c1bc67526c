"""The study of `netpipe.watch`: its cases, and what counts as a wrong answer."""

from dataclasses import replace
from pathlib import Path

import pytest

from netpipe.watching.window import Window
from perf_tests.studies.faults.catalogue import CASES
from perf_tests.studies.watching import memory, trials
from perf_tests.studies.watching.__main__ import format_table
from perf_tests.studies.watching.training import BECOMES_SLOW, SYNCED, Asked, BecomesSlow
from perf_tests.studies.watching.trials import QUESTIONS, Trial, run, told_cases
from tests.watching.windows import make_window

FAULTS = {case.name: case for case in told_cases()}


def windows_of(*kinds: str) -> list[Window]:
    """Make windows of 200 batches with the kinds."""
    made = enumerate(make_window(number) for number in range(len(kinds)))
    return [
        replace(window, verdict=replace(window.verdict, kind=kinds[number]))
        for number, window in made
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
    assert trials._find_slowdown(BECOMES_SLOW, {"at": 500}, 1, Path())[2] == problems


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


def test_the_cases_are_those_that_a_passive_look_can_tell() -> None:
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


def test_a_training_is_watched(tmp_path: Path) -> None:
    """A process trains on a case, and its windows come back."""
    values = {"step_s": 0.012, "load_ratio": 0.5}
    log = str(tmp_path / "run.jsonl")
    ((window,),) = trials._train(Asked("sync-float-computing", values, log, 60.0, steps=20))
    assert window.figures.batches == 20
    assert window.figures.synced_fraction is not None


def test_memory_is_read_ten_times(tmp_path: Path) -> None:
    """The steps are taken, on a clock that only they move."""
    held = memory.main(1000, str(tmp_path / "run.jsonl"))
    assert len(held) == 10
    assert min(held) > 10**6


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
