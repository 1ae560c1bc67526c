"""Renders a diagnosis as text: its summary sentence, and its tables."""

from collections.abc import Iterator
from typing import Final

from rich.console import JustifyMethod
from rich.table import Table

from netpipe.diagnosis.diagnosis import Bottleneck, Diagnosis, Findings, Prediction
from netpipe.diagnosis.turns import NO_TIME
from netpipe.diagnosis.what_if import MAX_HELPFUL_RATIO
from netpipe.results.measurement import Measurement
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
    VerdictKind.LOADER_BOUND, VerdictKind.MASKED_LOADER_BOUND, VerdictKind.AT_RISK,
    VerdictKind.HEALTHY, VerdictKind.JITTER, VerdictKind.CONTENTION, VerdictKind.INCONCLUSIVE,
)  # fmt: skip


def summarize(findings: Findings, measurement: Measurement | None, verdict: Verdict | None) -> str:
    """Say why training waits, for which stage and resource, and what would help."""
    bottleneck = findings.bottleneck
    sentences = [_describe_rate(findings, measurement, verdict)]
    if verdict is None or verdict.kind in _LOADING_KINDS:
        is_healthy = verdict is not None and verdict.kind == VerdictKind.HEALTHY
        subject = "What would limit it first: stage" if is_healthy else "Stage"
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
    helpful = [guess for guess in findings.what_if if guess.load_s_per_batch.median < helpful_s]
    simple = [guess for guess in helpful if guess.kind in ("no-threads", "workers")]
    for best in (*simple, *helpful)[:1]:
        yield f"{_describe_prediction(best)} (not tried: {findings.why_untried})."


def _describe_prediction(prediction: Prediction) -> str:
    change, load_s, headroom = prediction.change, prediction.load_s_per_batch, prediction.headroom
    # These two begin with the name of a stage, whose case is the user's.
    if prediction.kind not in ("without-stage", "faster-stage"):
        change = change[0].upper() + change[1:]
    scale, unit = (1e3, "ms") if load_s.median < 1 else (1.0, "s")
    median, low, high = (
        format_number(scale * seconds) for seconds in (load_s.median, load_s.low, load_s.high)
    )
    headroom_clause = f"; headroom then {headroom.median:.2g}" if headroom else ""
    return f"{change} would give {median} {unit} [{low}, {high}]{headroom_clause}"


def tables(diagnosis: Diagnosis) -> Iterator[Table]:
    """Yield the tables in reading order; none is empty."""
    findings = diagnosis.findings
    if findings.stages:
        yield _build_stage_table(findings)
    yield _build_intervention_table(findings)
    if findings.what_if:
        yield _build_prediction_table(findings)
    if diagnosis.needs:
        yield _build_need_table(diagnosis)


def closing(findings: Findings) -> str:
    """Return the lines after the tables: the remarks, and how the tried change turned out."""
    lines = [f"remark: {remark}" for remark in findings.remarks]
    if findings.verified:
        lines.append(f"tried: {findings.verified.says}")
    elif not (lines and findings.why_untried == NO_TIME):
        lines.append(f"nothing was tried: {findings.unverified}")
    return "\n".join(lines)


_WRAPPED: Final = ("stage", "made at", "change", "", "with")
_FIGURES: Final = (
    "share", "time", "CPU time", "step", "batches/s", "workers", "cores", "headroom now",
)  # fmt: skip


def _build_table(title: str, *headings: str) -> Table:
    table = new_table(title)
    for heading in headings:
        if heading in _WRAPPED:
            table.add_column(heading, overflow="fold")
        else:
            justify: JustifyMethod = "right" if heading in _FIGURES else "left"
            table.add_column(heading, no_wrap=True, justify=justify)
    return table


def _build_stage_table(findings: Findings) -> Table:
    total = format_seconds(findings.lane_s_per_batch.median)
    title = f"stages: what a batch takes in one thread of one process, {total} in all"
    table = _build_table(
        title, "stage", "share", "time", "CPU time", "without it", "runs in", "made at"
    )
    for stage in findings.stages[:_MAX_STAGES]:
        without_s, share = stage.without_s_per_batch, format_percent(stage.fraction)
        wall, cpu = format_seconds(stage.s_per_batch), format_seconds(stage.cpu_s_per_batch)
        without = format_seconds(without_s.median) if without_s else ""
        table.add_row(stage.name, share, wall, cpu, without, stage.section, stage.made_at)
    return table


def _build_intervention_table(findings: Findings) -> Table:
    title = "interventions: what was changed to find out, in turns with the loader"
    table = _build_table(title, "change", "times as fast", "")
    for made in findings.interventions:
        says, ratio = made.says, format_ratio_interval(made.speedup) if made.speedup else ""
        if made.before_s_per_batch and made.after_s_per_batch:
            before_s, after_s = made.before_s_per_batch.median, made.after_s_per_batch.median
            says += f": {format_seconds(after_s)} instead of {format_seconds(before_s)} a batch"
        table.add_row(made.what, ratio, says)
    return table


def _build_prediction_table(findings: Findings) -> Table:
    unmodified = Prediction("the loader as it is (measured)", "", findings.load_s_per_batch)
    title = "what if: predicted load time of a batch"
    table = _build_table(title, "with", "load time", "headroom")
    for guess in (unmodified, *findings.what_if):
        headroom = f"{guess.headroom.median:.2f}" if guess.headroom else ""
        table.add_row(guess.change, format_seconds_interval(guess.load_s_per_batch), headroom)
    return table


def _build_need_table(diagnosis: Diagnosis) -> Table:
    title = "what each accelerator needs (step times are derived)"
    table = _build_table(
        title, "accelerator", "step", "batches/s", "workers", "cores", "headroom now"
    )
    for need in diagnosis.needs:
        step, rate = format_seconds(need.step_s), format_number(need.batches_per_s)
        cores, headroom = f"{need.cores:.2g}", f"{need.headroom:.2f}"
        table.add_row(need.accelerator, step, rate, str(need.workers), cores, headroom)
    return table
