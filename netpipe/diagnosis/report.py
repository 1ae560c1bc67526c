"""Renders a diagnosis as text: its summary sentence, and its tables."""

from collections.abc import Iterator
from typing import Final

from rich.table import Table

from netpipe.diagnosis.diagnosis import Bottleneck, Diagnosis, Findings, Intervention, Prediction
from netpipe.diagnosis.schedule import NO_TIME
from netpipe.diagnosis.what_if import MAX_HELPFUL_RATIO
from netpipe.results.measurement import Interval, Measurement
from netpipe.results.units import (
    format_number,
    format_percent,
    format_ratio_interval,
    format_seconds,
    format_seconds_interval,
)
from netpipe.verdict.kinds import Verdict, VerdictKind
from netpipe.verdict.report import new_table

_MAX_STAGES: Final = 8
_BOUND: Final = {
    "cpu": "bound by the CPU",
    "gil": "bound by the GIL",
    "disk": "bound by the disk",
    "memory": "bound by the memory that all cores share",
    "waiting": "waiting for storage elsewhere, a lock or a sleep",
}
# Verdicts whose summary names the limiting stage; the others end with the verdict's advice.
_LOADING_KINDS: Final = (
    VerdictKind.LOADER_BOUND,
    VerdictKind.MASKED_LOADER_BOUND,
    VerdictKind.AT_RISK,
    VerdictKind.HEALTHY,
    VerdictKind.JITTER,
    VerdictKind.CONTENTION,
    VerdictKind.INCONCLUSIVE,
)


def summarize(findings: Findings, measurement: Measurement | None, verdict: Verdict | None) -> str:
    """Say why training waits, for which stage and resource, and what would help."""
    bottleneck = findings.bottleneck
    sentences = [_describe_rate(findings, measurement, verdict)]
    if verdict is None or verdict.kind in _LOADING_KINDS:
        subject = "Stage"
        if verdict is not None and verdict.kind == VerdictKind.HEALTHY:
            subject = "What would limit it first: stage"
        sentences.append(_describe_bottleneck(bottleneck, subject))
        # If the resource is unknown, `bottleneck.why` already states the clearest effect.
        clearest = next(iter(findings.interventions), None)
        if clearest and clearest.clear_factor and bottleneck.resource != "unknown":
            sentences.append(f"Clearest effect: {clearest.effect}.")
        sentences += _describe_help(findings)
    else:
        sentences.append(f"Next: {verdict.next}.")
    return " ".join(sentences)


def _describe_rate(
    findings: Findings, measurement: Measurement | None, verdict: Verdict | None
) -> str:
    load_s = findings.load_s_per_batch.median
    if measurement is None or verdict is None:
        return f"Loads {format_number(1 / load_s)} batches/s, {format_seconds(load_s)} each."
    device = measurement.device
    kind = f"{verdict.kind.capitalize()} on {device.key}{' (derived)' * device.emulated}"
    if verdict.kind not in _LOADING_KINDS:
        return f"{kind}{verdict.message.removeprefix(verdict.kind)}."
    needs, sustains = 1 / measurement.step_s.median, 1 / measurement.load_s_per_batch.median
    return f"{kind}: needs {format_number(needs)} batches/s, sustains {format_number(sustains)}."


def _describe_bottleneck(bottleneck: Bottleneck, subject: str) -> str:
    share, why = f"{bottleneck.fraction:.0%}", bottleneck.why
    if bottleneck.resource == "process-transfer":
        return f"The transfer between processes holds {share}: {why}."
    if bottleneck.resource == "device-transfer":
        return f"The copy to the device limits: {why}."
    if bottleneck.stage is None:
        return f"No stage stands out: {why}."
    holds = f"{subject} {bottleneck.stage} holds {share} of loading"
    if bottleneck.resource == "unknown":
        return f"{holds}; {why}."
    return f"{holds}, {_BOUND[bottleneck.resource]} ({why})."


def _describe_help(findings: Findings) -> Iterator[str]:
    """Yield a sentence on the change that was tried, or else on the most promising prediction."""
    tried = findings.verified
    if tried is not None:
        prediction = next(guess for guess in findings.what_if if guess.change == tried.change)
        yield (
            f"{_describe_prediction(prediction)}; tried: "
            f"{format_seconds(tried.measured_s_per_batch.median)} instead of "
            f"{format_seconds(tried.before_s_per_batch.median)}."
        )
        return
    helpful_s = MAX_HELPFUL_RATIO * findings.load_s_per_batch.median
    helpful = [
        prediction
        for prediction in findings.what_if
        if prediction.load_s_per_batch.median < helpful_s
    ]
    simple = [prediction for prediction in helpful if prediction.kind in ("no-threads", "workers")]
    for best in (*simple, *helpful)[:1]:
        why = findings.unverified.rpartition(" could not be tried: ")[2]
        yield f"{_describe_prediction(best)} (not tried: {why})."


def _describe_prediction(prediction: Prediction) -> str:
    change, headroom = prediction.change, prediction.headroom
    # These two begin with the name of a stage, whose case is the user's.
    if prediction.kind not in ("without-stage", "faster-stage"):
        change = change[0].upper() + change[1:]
    headroom_clause = f"; headroom then {headroom.median:.2g}" if headroom else ""
    return f"{change} would give {_format_interval(prediction.load_s_per_batch)}{headroom_clause}"


def _format_interval(interval: Interval) -> str:
    scale, unit = (1e3, "ms") if interval.median < 1 else (1.0, "s")
    low, high = format_number(scale * interval.low), format_number(scale * interval.high)
    return f"{format_number(scale * interval.median)} {unit} [{low}, {high}]"


def tables(diagnosis: Diagnosis) -> Iterator[Table]:
    """Yield the tables in reading order; none is empty."""
    findings = diagnosis.findings
    if findings.stages:
        yield _stage_table(findings)
    yield _intervention_table(findings)
    if findings.what_if:
        yield _prediction_table(findings)
    if diagnosis.needs:
        yield _need_table(diagnosis)


def closing(findings: Findings) -> str:
    """Return the lines after the tables: the remarks, and how the tried change turned out."""
    tried, why = findings.verified, findings.unverified
    lines = [f"remark: {remark}" for remark in findings.remarks]
    if tried:
        lines.append(f"tried: {tried.says}")
    elif not (lines and why.endswith(NO_TIME)):
        lines.append(f"nothing was tried: {why}")
    return "\n".join(lines)


def _stage_table(findings: Findings) -> Table:
    total = format_seconds(findings.lane_s_per_batch.median)
    table = new_table(f"stages: what a batch takes in one thread of one process, {total} in all")
    table.add_column("stage", overflow="fold")
    for heading in ("share", "time", "CPU time"):
        table.add_column(heading, no_wrap=True, justify="right")
    table.add_column("without it", no_wrap=True)
    table.add_column("runs in", no_wrap=True)
    table.add_column("made at", overflow="fold")
    for stage in findings.stages[:_MAX_STAGES]:
        without = stage.without_s_per_batch
        table.add_row(
            stage.name,
            format_percent(stage.fraction),
            format_seconds(stage.s_per_batch),
            format_seconds(stage.cpu_s_per_batch),
            format_seconds(without.median) if without else "",
            stage.section,
            stage.made_at,
        )
    return table


def _intervention_table(findings: Findings) -> Table:
    table = new_table("interventions: what was changed to find out, in turns with the loader")
    table.add_column("change", overflow="fold")
    table.add_column("times as fast", no_wrap=True)
    table.add_column("", overflow="fold")
    for intervention in findings.interventions:
        speedup = intervention.speedup
        ratio = format_ratio_interval(speedup) if speedup else ""
        conclusion = f"{intervention.says}{_describe_times(intervention)}"
        table.add_row(intervention.what, ratio, conclusion)
    return table


def _describe_times(intervention: Intervention) -> str:
    before_s, after_s = intervention.before_s_per_batch, intervention.after_s_per_batch
    if before_s is None or after_s is None:
        return ""
    after, before = format_seconds(after_s.median), format_seconds(before_s.median)
    return f": {after} instead of {before} a batch"


def _prediction_table(findings: Findings) -> Table:
    table = new_table("what if: predicted load time of a batch")
    table.add_column("with", overflow="fold")
    table.add_column("load time", no_wrap=True)
    table.add_column("headroom", no_wrap=True)
    now_s = format_seconds_interval(findings.load_s_per_batch)
    table.add_row("the loader as it is (measured)", now_s, "")
    for prediction in findings.what_if:
        headroom = f"{prediction.headroom.median:.2f}" if prediction.headroom else ""
        load_s = format_seconds_interval(prediction.load_s_per_batch)
        table.add_row(prediction.change, load_s, headroom)
    return table


def _need_table(diagnosis: Diagnosis) -> Table:
    table = new_table("what each accelerator needs (step times are derived)")
    table.add_column("accelerator", no_wrap=True)
    for heading in ("step", "batches/s", "workers", "cores", "headroom now"):
        table.add_column(heading, no_wrap=True, justify="right")
    for need in diagnosis.needs:
        table.add_row(
            need.accelerator,
            format_seconds(need.step_s),
            format_number(need.batches_per_s),
            str(need.workers),
            f"{need.cores:.2g}",
            f"{need.headroom:.2f}",
        )
    return table
