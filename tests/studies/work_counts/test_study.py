"""The study of counted work: its changes, records and table."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from perf_tests.studies.records import read_records
from perf_tests.studies.work_counts import __main__ as study
from perf_tests.studies.work_counts import unsteady
from perf_tests.studies.work_counts.__main__ import UNCHANGED, UNSTEADY, Trial, format_table
from perf_tests.studies.work_counts.planted import CHANGES, PlantedChange
from tests.root_process import ROOT


def make_trial(change: str, *, named: bool = True, outcome: str = "PASS") -> Trial:
    """Return a trial of five seconds."""
    return Trial(change, "0123", "quiet", {"calls": outcome}, named, 5.0)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_a_change_can_be_planted(change: PlantedChange, tmp_path: Path) -> None:
    """A change's line occurs once in its file; its replacement is valid Python."""
    path = tmp_path / change.file
    path.parent.mkdir(parents=True)
    shutil.copy(ROOT / change.file, path)
    change.plant(tmp_path)
    assert path.read_text() != (ROOT / change.file).read_text()
    compile(path.read_text(), change.file, "exec")


def test_trials_are_kept_and_not_repeated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A second run continues where the first one ended."""
    tried: list[str] = []

    def find_planted(change: PlantedChange, _: int) -> Trial:
        tried.append(change.name)
        return make_trial(change.name)

    def compare_unchanged(*_: object) -> Trial:
        tried.append(UNCHANGED)
        return make_trial(UNCHANGED)

    def compare_unsteady(loader: str, _: int) -> Trial:
        tried.append(loader)
        return make_trial(loader)

    monkeypatch.setattr(study, "compare_unsteady", compare_unsteady)
    monkeypatch.setattr(study, "find_planted", find_planted)
    monkeypatch.setattr(study, "compare_unchanged", compare_unchanged)
    kept = tmp_path / "trials.jsonl"
    first = ["--unchanged", "2", "--planted", "1", "--unsteady", "1", "--trials", str(kept)]
    assert CliRunner().invoke(study.main, first).exit_code == 0
    planted = [change.name for change in CHANGES]
    assert sorted(tried) == sorted([UNCHANGED] * 2 + planted + [*UNSTEADY])
    tried.clear()
    more = ["--unchanged", "3", "--planted", "1", "--unsteady", "1", "--trials", str(kept)]
    assert CliRunner().invoke(study.main, more).exit_code == 0
    assert tried == [UNCHANGED]
    assert len(read_records(kept, Trial)) == 3 + len(CHANGES) + len(UNSTEADY)


def test_the_table_counts_what_was_found() -> None:
    """A change that was not named, and an alarm on unchanged code, are counted as such."""
    name = CHANGES[0].name
    trials = [
        make_trial(name),
        make_trial(name, named=False),
        make_trial(UNCHANGED),
        make_trial(UNCHANGED, named=False, outcome="REGRESSED"),
    ]
    lines = list(format_table(trials))
    assert f"| {name} | 1 of 2 | 5 s |" in lines
    assert lines[-1].startswith("Unchanged code: 1 alarms in 2 comparisons")
    assert "in 1 every kind of work was PASS" in lines[-1]


def test_the_table_counts_alarms_of_random_loaders() -> None:
    """An alarm, and comparisons of more than two processes, are counted for each loader."""
    alarm = replace(make_trial("pipe", named=False, outcome="IMPROVED"), processes=8)
    lines = list(format_table([make_trial("pipe"), alarm, make_trial("threads")]))
    (line,) = (line for line in lines if line.startswith("Loader `pipe`"))
    assert "1 alarms in 2 comparisons (IMPROVED 1, PASS 1); 1 took more than 2 processes" in line


@pytest.mark.parametrize("name", UNSTEADY)
def test_a_random_loader_makes_batches(name: str) -> None:
    """Each loader yields two batches of tokens, and ends its program."""
    batches = getattr(unsteady, name)()
    assert all(next(batches)["tokens"].shape[0] == 64 for _ in range(2))
    batches.close()
