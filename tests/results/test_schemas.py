"""netpipe's documents fit the schemas that it ships."""

import json
from collections.abc import Callable, Hashable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from netpipe.errors import InputError
from netpipe.gate import baseline
from netpipe.gate.comparison import BaselineSessions, compare
from netpipe.gate.duets import Duet
from netpipe.jobs.registry import run_job
from netpipe.jobs.targets import Factories
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.plugin.against import Against
from netpipe.plugin.gate import Gate, Selection
from netpipe.plugin.gate_results import GateResult
from netpipe.plugin.measurer import Measurer
from netpipe.plugin.options import Options
from netpipe.plugin.outputs import write_json
from netpipe.plugin.run import Run
from netpipe.plugin.sessions import Jobs
from netpipe.results.documents import check_document
from netpipe.results.measurement import Finding, Measurement
from netpipe.results.start_up import StartUp
from netpipe.results.statistics import median_interval
from netpipe.results.step_times import Distributions, StepTimes
from netpipe.verdict.decision import judge
from netpipe.verdict.document import measurement_document
from netpipe.worktrees import Commit
from tests.jobs.session_targets import failing_loader, no_loader, tiny_loader
from tests.measurements import CPU, EMULATED, make_measurement
from tests.plugin.recorded import make_duet
from tests.schemas import DOCUMENTS, FOLDER, build_schema

NONE: dict[str, Any] = {"step_synced_s": None, "buffered_batches": None, "overhead_fraction": None}
MEASUREMENTS = [
    make_measurement(
        timeline=(StepTimes(0.0, 0.01, 0.011, 0.04, 0.011),),
        distributions=Distributions((0.03,) * 101, (0.01,) * 101, 180),
        start_up=StartUp(1.0, 2.0, 3.0),
        tokens_per_s=median_interval([5e4, 5.1e4]),
        tokens_per_s_per_device=median_interval([5e4] * 6),
        tokens_unit="examples",
        not_known={"mfu": "no peak is known for h200-x1"},
    ),
    make_measurement(device=EMULATED, rounds=2, **NONE),
    make_measurement(device=CPU, load_s=0.04, train_s=0.04, findings=(Finding("a", "b"),)),
]


RIGHT = measurement_document(MEASUREMENTS[0], judge(MEASUREMENTS[0]))


def refuses(document: Any, name: str) -> bool:
    """Return whether the schema of this name refuses a document."""
    try:
        check_document(document, f"{name}.1", "a file")
    except InputError:
        return True
    return False


@pytest.mark.parametrize("measurement", MEASUREMENTS)
def test_a_measurement_fits(measurement: Measurement) -> None:
    """Measurements fit with and without verdict, with missing parts and unbounded intervals."""
    check_document(measurement.to_document(), "measurement.1", "a file")
    printed = measurement_document(measurement, judge(measurement))
    check_document(printed, "measurement.1", "a file")


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_schema_is_that_of_its_types(name: str) -> None:
    """`python -m tests.schemas` wrote the file after the last change of a type."""
    assert json.loads((FOLDER / f"{name}.json").read_text()) == build_schema(name)


@pytest.mark.parametrize("name", build_schema("measurement.1")["required"])
def test_a_measurement_needs_its_fields(name: str) -> None:
    """The schema refuses a document that lacks a required field."""
    assert refuses({key: value for key, value in RIGHT.items() if key != name}, "measurement")


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("schema", "netpipe.measurement/2"),
        ("device.count", 0),
        ("step_s.median", None),
        ("step_s.n", 0),
        ("load_s_per_batch", None),
        ("rounds.step_s.0", "fast"),
        ("sync_probe_fraction", 1.5),
        ("versions.jax", 10),
        ("verdict.kind", "slow"),
        ("findings", ["slow"]),
        ("timeline", None),
        ("timeline.0.done_s", -0.1),
        ("distributions.wait_s", [0.0] * 100),
        ("distributions.steps", 0),
        ("start_up.import_s", -0.1),
        ("start_up.reading_s", 0.1),
        ("mfu", 0.15),
        ("tokens_per_s.median", 0.0),
        ("tokens_unit", "words"),
        ("not_known.step_s", "no step"),
        ("not_known.mfu", ""),
    ],
)
def test_a_wrong_measurement_is_refused(place: str, value: object) -> None:
    """The schema refuses a document that has another value in one field."""
    wrong = json.loads(json.dumps(RIGHT))
    assert not refuses(wrong, "measurement")
    *path, last = (int(part) if part.isdigit() else part for part in place.split("."))
    inner: Any = wrong
    for name in path:
        inner = inner[name]
    inner[last] = value
    assert refuses(wrong, "measurement")


def test_a_baseline_fits(tmp_path: Path) -> None:
    """The schema covers netpipe's part of a baseline, and the used part of pytest-benchmark's."""
    theirs = {"datetime": "2026-11-21", "commit_info": {}, "benchmarks": []}
    path = baseline.save(tmp_path, "first", theirs, {"a::b": tuple(MEASUREMENTS)})
    document = json.loads(path.read_text())
    assert not refuses(document, "baseline")
    del document["netpipe"]["sessions"][1]["step_s"]
    assert refuses(document, "baseline")


@pytest.mark.parametrize(
    ("loader", "key"),
    [(tiny_loader, "measurement"), (failing_loader, "error"), (no_loader, "error")],
)
def test_a_sessions_result_fits(tmp_path: Path, loader: Callable[[], Any], key: str) -> None:
    """A session writes either a measurement or an error."""
    result = tmp_path / "result.json"
    request = MeasureRequest(result=str(result), accelerator="emulated:1ms", budget_s=0.2)
    run_job(request, lambda: Factories(loader))
    document = json.loads(result.read_text())
    assert set(document) == {"schema", key}
    if key == "measurement":
        check_document(document[key], "measurement.1", "a file")


def test_a_run_fits(tmp_path: Path) -> None:
    """The schema covers the file of `--netpipe-json`, with sessions and comparisons."""
    measurer = Measurer(Options(), True, lambda _: None)
    gate = Gate(measurer, Selection(Path(), lambda _: True))
    run = Run(measurer.options, measurer, gate)
    measurer.sessions = {("a", "auto"): tuple(MEASUREMENTS)}
    measurer.tests = {("a", "auto"): "a::b"}
    slow = replace(MEASUREMENTS[0], step_s=make_measurement(step_s=0.09).step_s)
    for sessions in ((), MEASUREMENTS[:1] * 3):
        comparison = compare("step_s", [slow, slow], BaselineSessions("it", sessions))
        gate.results.append(GateResult("a::b", "step_s", comparison, slow))
    gate.results.append(GateResult("a::b", "step_s", comparison, slow, against="main"))
    duets: dict[tuple[Hashable, str], list[Duet]] = {
        ("subject", "step_s"): [make_duet("step_s", MEASUREMENTS[0], MEASUREMENTS[1])]
    }
    commit = Commit(tmp_path, "main", "0123456789")
    measurer.against = Against(commit, cast(Any, None), "", Jobs(), print, print, duets)
    write_json(run, tmp_path / "run.json")
    document = json.loads((tmp_path / "run.json").read_text())
    assert not refuses(document, "run")
    outcomes = [(entry["outcome"], entry["against"]) for entry in document["comparisons"]]
    assert outcomes == [("NO_BASELINE", None), ("REGRESSED", None), ("REGRESSED", "main")]
    schema = build_schema("run.1")
    described = schema["$defs"]
    assert set(document["against"]) == set(described["OtherVersion"]["properties"])
    assert set(document) == set(schema["properties"])
    every = set(described["PrintedComparison"]["properties"])
    assert all(set(entry) == every for entry in document["comparisons"])
    del document["measurements"][0]["verdict"]
    assert refuses(document, "run")
