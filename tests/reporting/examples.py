"""Documents of every kind that a page can show, as netpipe writes them."""

import json
from collections.abc import Mapping
from typing import Any, Final

from netpipe.diagnosis.diagnosis import (
    Bottleneck,
    Diagnosis,
    Findings,
    Intervention,
    Prediction,
    Reads,
    ReadsInFlight,
    Stage,
    Verification,
)
from netpipe.grain_access.nodes import Graph, Node
from netpipe.linting.linter import LintReport
from netpipe.linting.rules.finding import LintFinding, SilencedFinding
from netpipe.results.measurement import BlockingLine, Finding, Interval, Measurement
from netpipe.results.start_up import StartUp
from netpipe.verdict.decision import judge
from netpipe.verdict.document import measurement_document
from tests.measurements import CPU, EMULATED, HOST, make_measurement, spread
from tests.work_profiles import PROFILE, make_profile

Document = dict[str, Any]

HOSTILE: Final = "</script><img src=x onerror=alert(1)>\"'&$x_1$ \x07\ud800\u202e漢"
"""A hostile name in a user's code."""


def near(median: float) -> Interval:
    """An interval of a tenth around a median."""
    return Interval(median, 0.95 * median, 1.05 * median, 9)


def measurement(name: str = "metrics[0]", **changes: Any) -> Document:
    """A loader-bound measurement with every field."""
    made: dict[str, Any] = {
        "load_s": spread(0.039, 0.040, 0.042),
        "train_s": spread(0.040, 0.041, 0.043),
        "blocking_lines": (BlockingLine(f"{name}.py", 7, f"float({name})", 0.2, 0.0),),
        "findings": (Finding("donation-missing", f"{name} is not donated"),),
    } | changes
    steps = {"timeline": timeline(), "distributions": distributions()}
    return _judged(make_measurement(**made)) | steps


def plain_measurement() -> Document:
    """A healthy measurement without optional fields."""
    missing = ("step_synced_s", "step_shadow_s", "step_transfer_s", "host_s_per_step")
    nothing: dict[str, Any] = dict.fromkeys((*missing, "buffered_batches"))
    document = _judged(make_measurement(rounds=2, **nothing))
    for name in ("verdict", "workers_needed", "cores_needed"):
        del document[name]
    return document


def measurements() -> Document:
    """Two accelerators; one is fed."""
    both = [measurement(device=EMULATED), _judged(make_measurement(device=CPU))]
    return {"schema": "netpipe.measurements/1", "measurements": both}


def timeline() -> list[dict[str, float]]:
    """Steps of 30 ms of a device that waits 10 ms for each batch."""
    return [
        {
            "asked_s": 0.040 * number,
            "given_s": 0.040 * number + 0.036,
            "dispatched_s": 0.040 * number + 0.037,
            "began_s": 0.040 * number + 0.036,
            "done_s": 0.040 * number + 0.066,
        }
        for number in range(12)
    ]


def distributions() -> Document:
    """Steps of about 40 ms, one of them slow."""
    near_s = [0.038 + 0.00004 * percentile for percentile in range(100)]
    return {
        "train_step_s": [*near_s, 0.3],
        "wait_s": [max(0.0, step_s - 0.01) for step_s in near_s] + [0.26],
        "steps": 1234,
    }


def lint(name: str = "tokenize") -> Document:
    """A pipeline of three calls with findings of each severity, one of them silenced."""
    nodes = (
        Node(0, "Batch", {"batch_size": 4}, (1,), False, made_at=f"{name}.py:3"),
        Node(1, "Map", {"transform": f"mine.{name}", "device_put": False}, (2,), False),
        Node(2, "Source", {"source": "mine.Probes", "length": 100}, (), False),
    )
    found = (
        LintFinding("no-workers", "warning", (0,), f"{name} has none", "half the speed", "add"),
        LintFinding("shuffle-after-batch", "error", (0,), f"{name} first", "", "swap", "proven"),
        LintFinding("jax-in-worker", "info", (1,), "it calls jax", "", ""),
    )
    silenced = (SilencedFinding(**vars(found[2]), reason=f"{name} is meant"),)
    report = LintReport("throughput", "0.2.18", Graph(nodes), found, silenced)
    trial = {
        "rule": "no-workers", "change": f".mp_prefetch({name})", "message": "2 times as fast",
        "before_s_per_batch": 0.02, "after_s_per_batch": 0.01, "before_cpu_s_per_batch": 0.02,
        "after_cpu_s_per_batch": 0.02, "ratio": None,
    }  # fmt: skip
    return {**report.to_document(), "trials": [trial]}


def empty_lint() -> Document:
    """The lint document of a loader that is not Grain's."""
    return LintReport("throughput", "0.2.18", Graph(()), ()).to_document() | {"trials": []}


def diagnosis(name: str = "tokenize") -> Document:
    """A loader whose stage holds Python's lock, with a change that was tried."""
    return _diagnosis(findings(name), lint(name)) | {"measurement": measurement(name)}


def plain_diagnosis() -> Document:
    """A loader that is not Grain's, without a step: few findings."""
    found = Findings(
        near(0.04), near(0.08), "as-it-is", near(0.08), near(0.08), 0, 0, (),
        Bottleneck(None, "unknown", 0.0, "nothing could be changed"), (), (), None,
        "the loader takes no workers", 3.0,
    )  # fmt: skip
    return _diagnosis(found, empty_lint())


def findings(name: str) -> Findings:
    """Two stages, a change of each outcome, and the predictions."""
    stages = (
        Stage(f".map({name})", 1, f"mine.{name}", "mine.py:4", "workers", 0.056, 0.056, 0.71,
              "timing", near(0.022)),
        Stage("source Probes", 2, "", "", "trainer", 0.022, 0.004, 0.29, "sampling"),
    )  # fmt: skip
    changed = (
        _intervention("without-stage", 0.022),
        _intervention("two-threads", 0.078),
        _intervention("two-processes", 0.150),
        Intervention("tiny-payload", "Bytes.", None, None, None, f"{name} sends nothing"),
    )
    foretold = (
        Prediction("3 workers", "workers", "faster"),
        Prediction(f"{name} at no cost", "without-stage", "unclear"),
    )
    tried = Verification("3 workers", "workers", near(0.029), near(0.04), "So")
    bottleneck = Bottleneck(f".map({name})", "gil", 0.71, f"{name} computes")
    return Findings(
        near(0.04), near(0.08), "rebuilt", near(0.078), near(0.077), 2, 0, stages, bottleneck,
        changed, foretold, tried, "", 61.0, start_up=StartUp(0.5, 1.5, 2.5, 3.5, 4.5),
        reads=Reads(4, (ReadsInFlight(4, 0.04, 100.0), ReadsInFlight(64, 0.04, 1600.0)), 2e4, ""),
    )  # fmt: skip


def run(**changes: Any) -> Document:
    """A run that is slower than its baselines by one metric."""
    document: Document = {
        "schema": "netpipe.run/1",
        "measurements": [measurement(), measurement()],
        "lints": [lint()],
        "accepted": {"commit": None, "baseline_changes": [], "waivers": []},
        "comparisons": [
            comparison("REGRESSED", "load_s_per_batch", worse_ratio=1.8),
            comparison("PASS", "load_cpu_ratio", worse_ratio=0.98),
        ],
        "against": None,
    }
    return document | changes


def comparison(outcome: str, metric: str, **changes: Any) -> Document:
    """One metric of a benchmark."""
    return {
        "benchmark": "perf_tests/test_loading.py::test_load_time", "device": "h200-x1",
        "quantity": "load_s_per_batch", "against": None, "metric": metric, "outcome": outcome,
        "now": 0.036, "baseline": 0.02, "worse_ratio": None, "reason": f"{metric} is {outcome}",
        "waiver": None,
    } | changes  # fmt: skip


def work(name: str = "rows.encode") -> Document:
    """A work document with every field, and two comparisons."""
    profile = make_profile(
        counts={**PROFILE.counts, "allocated_bytes": {name: 2e6, "": 1e6}},
        dropped={"calls": {name: (1.0, 2.0)}},
        not_counted={"read_bytes": f"{name} cannot be counted"},
    )
    comparison = {"kind": "calls", "now": 2.0, "then": 1.0, "worse_ratio": 2.0}
    comparisons = [
        {**comparison, "outcome": "REGRESSED", "reason": f"{name}: 2 calls per batch instead of 1"},
        {**comparison, "outcome": "NOT_COMPARED", "reason": "it was not counted then"},
    ]
    return {**profile.to_document(), "loader": name, "against": name, "comparisons": comparisons}


def throughput() -> Document:
    """One combination beside another loader."""
    figures = {
        "tokens_per_s": _plain_interval(2e7), "tokens_per_cpu_s": _plain_interval(1e7),
        "batches_per_s": _plain_interval(160), "padding_fraction": _plain_interval(0.014),
        "padding_fraction_worst_batch": _plain_interval(0.02),
        "bytes_read_per_token": _plain_interval(1.9), "peak_pss_bytes": _plain_interval(4e8),
        "peak_rss_bytes": _plain_interval(5e8), "first_batch_s": _plain_interval(1.2),
        "counted_by": "tokens", "runs": [_RUN],
    }  # fmt: skip
    device = {"key": "cpu-x-2", "kind": "x", "platform": "cpu", "count": 2, "emulated": False}
    combination = figures | {"batch_size": 128, "workers": 2, "sequence_length": 512, "best": True}
    host = {"cpu": "x", "cores": 2, "memory_bytes": 2**33, "container": True, "machine": ""}
    return {
        "schema": "netpipe.throughput/1", "device": device, "host": host, "versions": {"a": "1"},
        "data": "some/where", "seconds": 3.0, "rounds": 5,
        "combinations": [combination | {"ratios": None}],
        "against": figures | {"target": "their.py:loader"}, "choice": None,
    }  # fmt: skip


def every_document() -> Mapping[str, Document]:
    """One document of each schema, and the smallest valid ones, by test id."""
    return {
        "measurement": measurement(),
        "plain measurement": plain_measurement(),
        "measurements": measurements(),
        "lint": lint(),
        "empty lint": empty_lint(),
        "diagnosis": diagnosis(),
        "plain diagnosis": plain_diagnosis(),
        "run": run(),
        "empty run": run(measurements=[], lints=[], comparisons=[]),
        "throughput": throughput(),
        "work": work(),
    }


_RUN: Final = {
    "wall_s": 3.0, "cpu_s": 6.0, "batches": 480, "tokens": 60_000_000, "slots": 61_000_000,
    "worst_padding_fraction": 0.02, "bytes_read": 1000, "peak_pss_bytes": 1000,
    "peak_rss_bytes": 1000, "first_batch_s": 1.2, "counted_by": "tokens",
}  # fmt: skip


def _judged(measured: Measurement) -> Document:
    return measurement_document(measured, judge(measured))


def _diagnosis(found: Findings, linted: Document) -> Document:
    said = "Loader-bound: needs 27.8 batches/s, sustains 24.6."
    made = Diagnosis(said, found, None, linted, HOST, {"grain": "0.2.18"})
    plain: Document = json.loads(json.dumps(made.to_document()))
    return plain


def _intervention(name: str, after_s: float) -> Intervention:
    speedup = near(0.078 / after_s)
    return Intervention(name, "Changed.", near(0.078), near(after_s), speedup, "It says so.")


def _plain_interval(median: float) -> Document:
    return {"median": median, "low": None, "high": 1.1 * median, "n": 5}
