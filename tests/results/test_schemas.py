"""The documents that netpipe writes, held against the schemas that it ships."""

import copy
import json
from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import jsonschema
import pytest
from referencing import Registry, Resource

from netpipe.gate import baseline
from netpipe.gate.comparison import BaselineSessions, compare
from netpipe.gate.duets import Duet
from netpipe.measuring.child import serve
from netpipe.measuring.request import Factories, MeasureRequest
from netpipe.plugin.against import Against
from netpipe.plugin.gate_results import GateResult
from netpipe.plugin.outputs import write_json
from netpipe.plugin.run import Run
from netpipe.plugin.worktrees import Commit
from netpipe.results.measurement import Finding, Measurement
from netpipe.results.start_up import StartUp
from netpipe.results.statistics import median_interval
from netpipe.results.step_times import Distributions, StepTimes
from netpipe.verdict.decision import judge
from netpipe.verdict.report import measurement_document
from tests.jobs.session_targets import failing_loader, no_loader, tiny_loader
from tests.measurements import CPU, EMULATED, make_measurement
from tests.plugin.recorded import make_duet
from tests.schemas import DOCUMENTS, FOLDER, build_schema

NONE: dict[str, Any] = {"step_synced_s": None, "buffered_batches": None, "overhead_fraction": None}
MAY_BE_ABSENT = (
    *("verdict", "workers_needed", "cores_needed"),  # no session's result has them
    *("timeline", "distributions", "trace"),  # nor has a baseline, or an older document
    *("epoch_batches", "within_epochs", "start_up", "storage", "watched_batches"),
    *("peak_pss_bytes", "growth_bytes_per_batch", "growing_process"),
    *("tokens_per_s", "tokens_per_s_per_device", "tokens_unit", "mfu", "not_known"),
)
ERROR = {"kind": "failed", "message": "disk gone"}
MEASUREMENTS = [
    make_measurement(
        timeline=(StepTimes(0.0, 0.01, 0.011, 0.04),),
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


def schema(name: str) -> dict[str, Any]:
    """Read a shipped schema."""
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.1.json").read_text())
    return found


@pytest.fixture(scope="module")
def check() -> Callable[[str, Any], None]:
    """Validate a document against a schema, which may name the files beside it."""
    registry: Registry[Any] = Registry().with_resources(
        (path.name, Resource.from_contents(json.loads(path.read_text())))
        for path in FOLDER.iterdir()
    )

    def validate(name: str, document: Any) -> None:
        jsonschema.Draft202012Validator(schema(name), registry=registry).validate(document)

    return validate


@pytest.mark.parametrize("measurement", MEASUREMENTS)
def test_a_measurement_is_described(check: Callable[..., None], measurement: Measurement) -> None:
    """With its verdict and without, with parts absent and intervals unbounded."""
    check("measurement", measurement.to_document())
    check("measurement", measurement_document(measurement, judge(measurement)))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_schema_is_that_of_its_types(name: str) -> None:
    """`python -m tests.schemas` wrote the file after the last change of a type."""
    assert json.loads((FOLDER / f"{name}.json").read_text()) == build_schema(name)


def spoilt() -> Iterator[tuple[str, Any]]:
    """Give measurement documents that are wrong in one place each."""
    right = measurement_document(MEASUREMENTS[0], judge(MEASUREMENTS[0]))
    for name in right:
        if name not in MAY_BE_ABSENT:
            yield f"no {name}", {key: value for key, value in right.items() if key != name}
    wrongs: list[tuple[tuple[Any, ...], Any]] = [
        (("schema",), "netpipe.measurement/2"),
        (("device", "count"), 0),
        (("step_s", "median"), None),
        (("step_s", "n"), 0),
        (("load_s_per_batch",), None),
        (("rounds", "step_s", 0), "fast"),
        (("sync_probe_fraction",), 1.5),
        (("versions", "jax"), 10),
        (("verdict", "kind"), "slow"),
        (("findings",), ["slow"]),
        (("timeline",), None),
        (("timeline", 0, "done_s"), -0.1),
        (("distributions", "wait_s"), [0.0] * 100),
        (("distributions", "steps"), 0),
        (("start_up", "import_s"), -0.1),
        (("start_up", "reading_s"), 0.1),
        (("mfu",), 0.15),
        (("tokens_per_s", "median"), 0.0),
        (("tokens_unit",), "words"),
        (("not_known", "step_s"), "no step"),
        (("not_known", "mfu"), ""),
    ]
    for path, value in wrongs:
        wrong = copy.deepcopy(right)
        inner: Any = wrong
        for name in path[:-1]:
            inner = inner[name]
        inner[path[-1]] = value
        yield f"{path} {value}", wrong


SPOILT = dict(spoilt())


@pytest.mark.parametrize("name", SPOILT)
def test_a_wrong_measurement_is_refused(check: Callable[..., None], name: str) -> None:
    """The schema refuses a document that lacks a field or has another value in it."""
    with pytest.raises(jsonschema.ValidationError):
        check("measurement", SPOILT[name])


def test_a_baseline_is_described(check: Callable[..., None], tmp_path: Path) -> None:
    """The schema covers netpipe's part of a baseline, and the used part of pytest-benchmark's."""
    theirs = {"datetime": "2026-11-21", "commit_info": {}, "benchmarks": []}
    path = baseline.save(tmp_path, "first", theirs, {"a::b": tuple(MEASUREMENTS)})
    document = json.loads(path.read_text())
    check("baseline", document)
    del document["netpipe"]["sessions"][1]["step_s"]
    with pytest.raises(jsonschema.ValidationError):
        check("baseline", document)


@pytest.mark.parametrize(
    ("loader", "key"),
    [(tiny_loader, "measurement"), (failing_loader, "error"), (no_loader, "error")],
)
def test_a_sessions_result_is_described(
    check: Callable[..., None], tmp_path: Path, loader: Callable[[], Any], key: str
) -> None:
    """A session writes a measurement or an error, and never both or neither."""
    result = tmp_path / "result.json"
    request = MeasureRequest(result=str(result), accelerator="emulated:1ms", budget_s=0.2)
    serve(request, Factories(loader))
    document = json.loads(result.read_text())
    assert set(document) == {"schema", key}
    check("session", document)
    both = {"measurement": MEASUREMENTS[0].to_document(), **document, "error": ERROR}
    for wrong in (both, {"schema": document["schema"]}):
        with pytest.raises(jsonschema.ValidationError):
            check("session", wrong)


def test_a_run_is_described(check: Callable[..., None], tmp_path: Path) -> None:
    """What `--netpipe-json` writes: sessions with their verdicts, and every comparison."""
    run = Run(cast(Any, None), compares=True, covers=lambda _: True, say=lambda _: None)
    run.sessions = {("a", "auto"): tuple(MEASUREMENTS)}
    slow = replace(MEASUREMENTS[0], step_s=make_measurement(step_s=0.09).step_s)
    for sessions in ((), MEASUREMENTS[:1] * 3):
        comparison = compare("step_s", [slow, slow], BaselineSessions("it", sessions))
        run.results.append(GateResult("a::b", "step_s", comparison, slow))
    run.results.append(GateResult("a::b", "step_s", comparison, slow, against="main"))
    duets: dict[tuple[Hashable, str], list[Duet]] = {
        ("subject", "step_s"): [make_duet("step_s", MEASUREMENTS[0], MEASUREMENTS[1])]
    }
    commit = Commit(tmp_path, "main", "0123456789")
    run.against = Against(commit, cast(Any, None), "", lambda _: None, duets)
    write_json(run, tmp_path / "run.json")
    document = json.loads((tmp_path / "run.json").read_text())
    check("run", document)
    outcomes = [(entry["outcome"], entry["against"]) for entry in document["comparisons"]]
    assert outcomes == [("NO_BASELINE", None), ("REGRESSED", None), ("REGRESSED", "main")]
    described = schema("run")["$defs"]
    assert set(document["against"]) == set(described["OtherVersion"]["properties"])
    assert set(document) == set(schema("run")["properties"])
    every = set(described["PrintedComparison"]["properties"])
    assert all(set(entry) == every for entry in document["comparisons"])
    del document["measurements"][0]["verdict"]
    with pytest.raises(jsonschema.ValidationError):
        check("run", document)
