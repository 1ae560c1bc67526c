"""Recorded measurements, sessions and documents keep their verdicts and output."""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from netpipe.reporting.rendering import render_page
from perf_tests.studies.gate_power.__main__ import KEPT
from perf_tests.studies.gate_power.decisions import replay_decisions
from perf_tests.studies.gate_power.live import read_sessions
from perf_tests.studies.gate_power.side_by_side import Trial
from perf_tests.studies.gate_power.trials import group_by_trial
from perf_tests.studies.records import read_records
from tests.command import Netpipe
from tests.outside import doors
from tests.outside.golden import ROOT, check_lines, figures, page_figures
from tests.plugin.project import Project
from tests.plugin.recorded import costlier, loader_bound, recorded
from tests.reporting.examples import every_document

MEASURED: Final = sorted((ROOT / "tests" / "results" / "measurements").glob("*.json"))
BASELINES: Final = sorted((ROOT / "baselines").glob("cpu-*/*.json"))
WORK: Final = sorted((ROOT / "baselines" / "work").glob("*/*.json"))
SESSIONS: Final = {each.__name__: each for each in (recorded, costlier, loader_bound)}


def test_recorded_measurements_keep_their_verdicts(
    netpipe: Netpipe, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recorded measurements keep their kinds, findings, figures and exit codes."""
    lines = []
    for path in MEASURED:
        doors.replay_sessions(monkeypatch, path)
        call = ("measure", "--loader", "a.py:b", "--quiet")
        ended = netpipe(*call, "--json")
        document = json.loads(ended.stdout)
        needed = [document["workers_needed"], f"{document['cores_needed']:.6g}"]
        found = sorted(finding["name"] for finding in document["findings"])
        kind = document["verdict"]["kind"]
        lines += [
            f"{path.stem}: {kind}, exit code {ended.exit_code}, needs {needed}, findings {found}",
            f"  evidence: {figures(' '.join(document['verdict']['evidence']))}",
            f"  terminal: {figures(netpipe(*call).stdout)}",
        ]
    check_lines("verdicts", lines)


def test_recorded_baselines_keep_their_summaries(netpipe: Netpipe) -> None:
    """`netpipe baseline show` and `diff` give the same figures of the recorded baselines."""
    calls: list[tuple[str, *tuple[Path, ...]]] = [("show", path) for path in BASELINES]
    calls += [("diff", *pair) for pair in pairwise(BASELINES)]
    lines = []
    for call in calls:
        lines.append(" ".join([call[0], *(path.name for path in call[1:])]))
        lines += flatten(json.loads(netpipe("baseline", *call, "--json").stdout))
        lines.append(f"  terminal: {figures(netpipe('baseline', *call).stdout)}")
    check_lines("baselines", lines)


def flatten(value: Any, path: str = " ") -> Iterator[str]:
    """Yield a line for each figure, name or flag in a document."""
    inner = value.items() if isinstance(value, Mapping) else enumerate(value)
    for name, each in inner:
        if isinstance(each, Mapping | list | tuple):
            yield from flatten(each, f"{path} {name}")
        else:
            yield f"{path} {name}: {each if not isinstance(each, float) else f'{each:.9g}'}"


def test_recorded_sessions_keep_their_decisions() -> None:
    """The gate decides on recorded sessions by the same metric, after as many sessions."""
    lines = []
    for each in group_by_trial(read_sessions(KEPT)):
        lines.append(f"{each.trial.name}: {each.slower}")
        decided = replay_decisions(each.before, each.after, 4, seed=1)
        lines += (f"  {one.outcome} by {one.metric}, {one.sessions} sessions" for one in decided)
    check_lines("decisions", lines)


def test_recorded_comparisons_side_by_side_keep_their_outcomes() -> None:
    """Recorded duets give the same outcomes and factors."""
    trials = read_records(KEPT.with_name("side_by_side.jsonl"), Trial)
    rows = [(trial.case, one) for trial in trials[::4] for one in trial.comparison.metrics]
    check_lines("duets", (f"{case}: {doors.describe_comparison(one)}" for case, one in rows))


def test_recorded_work_keeps_its_comparisons() -> None:
    """Each baseline of work, compared with the one before, has the same outcomes and counts."""
    lines = []
    for then, now in pairwise(WORK):
        lines.append(f"{now.name} against {then.name}")
        lines += (f"  {line}" for line in doors.compare_recorded_work(now, then))
    check_lines("work", [*lines, *doors.compare_changed_work()])


@pytest.mark.parametrize("name", sorted(every_document().keys() - {"measurements", "empty run"}))
def test_a_document_keeps_its_page(name: str) -> None:
    """The page of a document of each kind shows the same figures and outcomes."""
    page = render_page([every_document()[name]], repeat="netpipe")
    check_lines(f"pages/{name.replace(' ', '-')}", page_figures(page).split(" | "))


def test_a_diagnosis_keeps_its_conclusions() -> None:
    """Measured blocks give the same stages, bottleneck, tables and predictions."""
    check_lines("diagnosis", doors.describe_diagnoses())


def test_a_run_of_pytest_keeps_its_outcomes(project: Project) -> None:
    """Sessions, against a baseline of a healthy loader, give the same outcomes and exit codes."""
    project.record()
    lines = []
    for name, session in SESSIONS.items():
        project.sessions = [session()]
        ended = project.compare("--netpipe-json", "run.json")
        lines.append(f"{name}: exit code {int(ended.ret)}")
        for one in project.read_json("run.json")["comparisons"]:
            values = (f"{one[key]:.6g}" for key in ("now", "baseline", "worse_ratio"))
            lines.append(f"  {one['outcome']} {one['metric']} {' '.join(values)}")
    check_lines("runs", lines)
