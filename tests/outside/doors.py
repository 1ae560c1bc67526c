"""The only module of these tests that names movable modules of netpipe."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from socket import gethostname
from typing import Any

import pytest

from netpipe.diagnosis import conclusions, diagnose
from netpipe.diagnosis.summary import summarize
from netpipe.diagnosis.what_if import list_changes, model_loader
from netpipe.gate.outcomes import Comparison
from netpipe.gate.work_comparison import compare_work
from netpipe.jobs import parent
from netpipe.reporting.rendering import read_document
from netpipe.results.fields import parse
from netpipe.results.measurement import Interval, parse_measurement
from netpipe.results.work_profile import WorkProfile
from netpipe.resuming import checking
from netpipe.work_counts import reproducible_counts
from tests.diagnosis import examples
from tests.diagnosis.examples import block, in_rounds, stage_time, turns
from tests.outside.golden import ROOT, figures
from tests.watching.windows import make_window, write_log
from tests.work_profiles import CALLERS, PROFILE, make_profile, with_calls, with_count


def schemas() -> dict[str, Any]:
    """Return every JSON schema that netpipe ships, by the name used in references."""
    paths = sorted((ROOT / "netpipe" / "schemas").glob("*.json"))
    return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}


def replay_sessions(monkeypatch: pytest.MonkeyPatch, recorded: Path) -> None:
    """Make every command replay a recorded measurement or a made-up result."""
    measured = parse_measurement(read_document(recorded), recorded)
    diagnosed = examples.diagnosis(measurement=measured)
    resumed = checking.ResumeReport(32, ended=False, undecided="unstable")
    monkeypatch.setattr(parent, "run_measurement", lambda *_, **__: measured)
    monkeypatch.setattr(parent, "run_session", lambda *_, **__: dict(examples.LINT))
    monkeypatch.setattr(diagnose, "run_diagnosis", lambda *_, **__: diagnosed)
    monkeypatch.setattr(reproducible_counts, "count_work", lambda *_, **__: PROFILE)
    monkeypatch.setattr(checking, "check_resume", lambda *_, **__: resumed)


def write_training_logs(folder: Path) -> None:
    """Write the log of a run that waits, and a folder with those of two healthy processes."""
    # The kernel gives no process this number.
    ended: dict[str, Any] = {"host": gethostname(), "pid": 2**30}
    write_log(folder / "training.jsonl", make_window(**ended))
    (folder / "training").mkdir()
    for number, name in enumerate("ab"):
        write_log(folder / "training" / f"{name}.jsonl", make_window(number, 0.0, **ended))


def describe_comparison(found: Comparison) -> str:
    """Return a metric's outcome and factor, and whether it decides."""
    worse = "" if found.worse is None else f" {found.worse.median:.6g} x"
    return f"{found.outcome} {found.metric}{worse}{' (reported only)' * found.is_reported_only}"


def compare_recorded_work(now: Path, then: Path) -> Iterator[str]:
    """Yield the comparison of each kind of work in the first profile of two baselines."""
    profiles = [json.loads(path.read_text("utf-8"))["netpipe"]["profiles"] for path in (now, then)]
    first = next(iter(profiles[0]))
    new, old = (parse(each[first], WorkProfile, "work") for each in profiles)
    # Recorded with other settings, so the comparison would be refused.
    yield from _compare_work(replace(new, fingerprint=old.fingerprint), old)


def compare_changed_work() -> Iterator[str]:
    """Yield the comparison of each kind of work of a profile with changed copies."""
    changed = {
        "a second call": with_calls({**CALLERS, "rows.encode": {"rows.batch": 256.0}}),
        "larger allocations": with_count("allocated_bytes", rows__batch=1.5e6, rows__encode=2e6),
        "fewer bytes sent": with_count("sent_bytes", total=130_000.0),
        "other data": make_profile(fingerprint="other"),
        "not counted": make_profile(
            counts={"calls": PROFILE.counts["calls"]}, not_counted={"sent_bytes": "why"}
        ),
    }
    for name, now in changed.items():
        yield name
        yield from (f"  {line}" for line in _compare_work(now, PROFILE))
    counts = {**PROFILE.counts, "calls": {"rows.batch": 1.0}}
    then, now = (
        make_profile(counts=counts, dropped={"calls": {"rows.encode": ends}})
        for ends in ((120.0, 140.0), (130.0, 200.0))
    )
    yield "the main part left out"
    yield from (f"  {line}" for line in _compare_work(now, then))


def _compare_work(now: Any, then: Any) -> Iterator[str]:
    for found in compare_work(now, then):
        yield f"{describe_comparison(found)}, now {found.now:.9g}, then {found.then}"


def describe_diagnoses() -> Iterator[str]:
    """Yield the conclusions from made-up blocks: causes and remedies."""
    locked = turns(single_thread=0.040, two_threads=0.040, two_processes=0.020)
    idle = turns(single_thread=block(0.040, 0.013), two_threads=0.020, two_processes=0.020)
    graph = examples.with_workers_graph()
    source = stage_time("Source", 0.010, node=graph.nodes[4])
    computes = (stage_time("Map", 0.030, node=graph.nodes[3]), source)
    waits = (stage_time("Map", 0.030, 0.003, graph.nodes[3]), source)
    unmodified = [block(s_per_batch, 0.001) for s_per_batch in (0.019, 0.020, 0.021)]
    sending = in_rounds(unmodified=unmodified, tiny_payload=[block(0.004, 0.001)] * 3)
    cases: dict[str, dict[str, Any]] = {
        "one thread at a time": {"scaling": locked, "times": computes},
        "waiting": {"scaling": idle, "times": waits},
        "sending": {"scaling": locked, "times": computes, "variants": sending},
        "no stages": {"scaling": locked},
    }
    for name, given in cases.items():
        known = {"variants": in_rounds(unmodified=unmodified), "load_s": examples.interval(0.020)}
        evidence = examples.evidence(graph=graph, **{**known, **given})
        loader = model_loader(evidence)
        effects = conclusions.list_interventions(evidence)
        cause = conclusions.find_bottleneck(loader, evidence, effects)
        yield f"{name}: {cause.resource} of {cause.stage}, {cause.fraction:.6g}"
        for stage in conclusions.list_stages(evidence, loader, effects):
            yield f"  stage {stage.name}: {stage.s_per_batch:.6g} s in {stage.section}, {stage.by}"
        yield from (f"  {each.name}: {_describe(each.speedup)}" for each in effects)
        listed = list_changes(loader, None, evidence.times, 0.02)
        changes = tuple(each.predict(0.02) for each in listed)
        yield from (f"  {each.change}: {each.expected}" for each in changes)
        found = examples.findings(bottleneck=cause, interventions=effects, what_if=changes)
        yield f"  in words: {figures(summarize(found, None, None))}"


def _describe(interval: Interval | None) -> str:
    if interval is None:
        return "none"
    return f"{interval.median:.6g} [{interval.low:.6g}, {interval.high:.6g}]"
