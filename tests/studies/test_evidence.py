"""The pages of the studies state the figures that the recorded trials give."""

import re

import pytest

from perf_tests.studies import scaling
from perf_tests.studies.diagnosis import predicting_report
from perf_tests.studies.diagnosis.naming import Naming
from perf_tests.studies.diagnosis.predicting import Predicting
from perf_tests.studies.gate_power import side_by_side
from perf_tests.studies.gate_power.live import read_sessions
from perf_tests.studies.gate_power.trials import group_by_trial
from perf_tests.studies.judge.__main__ import Trial
from perf_tests.studies.judge.__main__ import format_table as format_verdicts
from perf_tests.studies.proportions import Proportion
from perf_tests.studies.records import read_records
from perf_tests.studies.watching import trials as watching
from perf_tests.studies.watching.__main__ import format_table
from tests.root_process import ROOT

STUDIES = ROOT / "perf_tests" / "studies"


def page_of(study: str) -> str:
    """Read the page of a study."""
    return (STUDIES / study / "README.md").read_text(encoding="utf-8")


def test_the_gate_page_states_what_each_slowdown_did() -> None:
    """The column "measured" has the ratio of the pairs of each slowdown with enough sessions."""
    documented = dict(
        re.findall(r"^\| (.+), stored baseline \| ([^|]+) \|", page_of("gate_power"), re.MULTILINE)
    )
    recorded = group_by_trial(read_sessions(STUDIES / "gate_power" / "sessions.jsonl.gz"))
    enough = (group for group in recorded if len(group.after) >= side_by_side.FEWEST)
    assert documented == {group.trial.name: group.slower for group in enough}


def test_the_gate_page_states_what_was_found_side_by_side() -> None:
    """The page has the table of the recorded trials."""
    trials = read_records(STUDIES / "gate_power" / "side_by_side.jsonl", side_by_side.Trial)
    assert "\n".join(side_by_side.format_table(trials)) in page_of("gate_power")


def test_the_judge_page_states_the_verdicts() -> None:
    """The page has the table of the recorded trials."""
    trials = read_records(STUDIES / "judge" / "trials.jsonl", Trial)
    assert "\n".join(format_verdicts(trials)) in page_of("judge")


def test_the_diagnosis_page_states_what_was_named() -> None:
    """The page has the number of correct trials, and their interval."""
    trials = read_records(STUDIES / "diagnosis" / "named.jsonl", Naming)
    right = Proportion.of([trial.is_right for trial in trials])
    low, high = (round(100 * bound) for bound in right.interval)
    stated = f"**{right.found} of {right.total}** ({low} to {high}%)"
    assert f"| 39d9df9 (`named.jsonl`) | none | {stated} |" in page_of("diagnosis")


@pytest.mark.parametrize(("file", "seeds"), [
    ("trials.jsonl", range(18, 111)), ("earlier_trials.jsonl", range(1, 18)),
    ("trials.jsonl", range(201, 221)), ("trials.jsonl", range(221, 225)),
    ("trials.jsonl", range(225, 235)), ("reads.jsonl", range(71, 91)),
    ("reads.jsonl", range(1, 26)),
])  # fmt: skip
def test_the_diagnosis_page_states_how_good_predictions_are(file: str, seeds: range) -> None:
    """The page has the number of recorded trials and how many directions were right."""
    recorded = read_records(STUDIES / "diagnosis" / file, Predicting)
    trials = [trial for trial in recorded if trial.seed in seeds]
    right = predicting_report.count_right(trials)
    low, high = (round(100 * bound) for bound in right.interval)
    share = f"{right.found} of {right.total}, {round(100 * right.fraction)}% ({low} to {high})"
    stated = f"| {len(trials)} | {len(trials) - right.total} | {share} |"
    assert stated in page_of("diagnosis")


def test_the_scaling_page_states_what_killed_trainings_saw() -> None:
    """It has the table of the recorded runs, among them fifty that were killed."""
    trials = read_records(STUDIES / "scaling.jsonl", scaling.Trial)
    page = (STUDIES / "scaling.md").read_text(encoding="utf-8")
    assert "\n".join(scaling.format_table(trials)) in page
    assert sum(trial.was_killed for trial in trials) >= 50
    assert not any(trial.problems for trial in trials)


def test_the_watching_page_states_the_recorded_trials() -> None:
    """It has the table of the file, in which 95% of the faults are right and no other is wrong."""
    trials = read_records(STUDIES / "watching" / "trials.jsonl", watching.Trial)
    assert "\n".join(format_table(trials)) in page_of("watching")
    assert not any(trial.problems for trial in trials if trial.question != "faults")
    faults = [trial for trial in trials if trial.question == "faults"]
    decided = [not trial.problems for trial in faults if not trial.is_open]
    assert sum(decided) >= 0.95 * len(decided) >= 0.95 * 0.9 * len(faults)
    missed = [trial for trial in faults if trial.problems and trial.called == "healthy"]
    assert missed == []
