"""Summarizes a diagnosis in a few sentences."""

from collections.abc import Iterator
from typing import Final

from netpipe.diagnosis.conclusions import find_clearest
from netpipe.diagnosis.diagnosis import RESOURCES, Bottleneck, Findings
from netpipe.diagnosis.what_if import FASTER, NO_THREADS, READS, WITHOUT_STAGE, WORKERS
from netpipe.results.measurement import Measurement
from netpipe.results.units import format_number, format_seconds
from netpipe.verdict.decision import name_phase
from netpipe.verdict.document import subject_label
from netpipe.verdict.kinds import Verdict, VerdictKind

# For these verdicts the summary names the limiting stage; for others it ends with the advice.
_LOADING_KINDS: Final = (
    VerdictKind.LOADER_BOUND, VerdictKind.MASKED_LOADER_BOUND, VerdictKind.AT_RISK,
    VerdictKind.HEALTHY, VerdictKind.JITTER, VerdictKind.CONTENTION, VerdictKind.INCONCLUSIVE,
)  # fmt: skip


def summarize(findings: Findings, measurement: Measurement | None, verdict: Verdict | None) -> str:
    """Return why training waits, which stage and resource limit it, and which change would help."""
    bottleneck = findings.bottleneck
    sentences = [_describe_rate(findings, measurement, verdict)]
    if verdict is None or verdict.kind in _LOADING_KINDS:
        is_healthy = verdict is not None and verdict.kind == VerdictKind.HEALTHY
        sentences.append(_describe_bottleneck(bottleneck, is_healthy=is_healthy))
        # For an unknown resource, `bottleneck.why` already names the clearest effect. If reads
        # wait, the clearest effect is always that of leaving out the stage that reads.
        clearest = find_clearest(findings.interventions)
        is_news = bottleneck.resource != "unknown" and findings.reads is None
        if clearest and is_news:
            sentences.append(f"Clearest effect: {clearest.effect}.")
        sentences += _describe_help(findings, measurement)
        if measurement:
            enough = "unknown" if findings.enough_workers is None else findings.enough_workers
            has = findings.workers
            sentences.append(f"Fewest workers that feed the step: {enough} (has {has}).")
    else:
        sentences.append(f"Next: {verdict.next}.")
    return " ".join(sentences)


def _describe_rate(
    findings: Findings, measurement: Measurement | None, verdict: Verdict | None
) -> str:
    load_s = findings.load_s_per_batch.median
    if measurement is None or verdict is None:
        derived = f" (derived: in {findings.storage})" if findings.storage else ""
        return (
            f"Loads {format_number(1 / load_s)} batches/s, {format_seconds(load_s)} each{derived}."
        )
    kind = f"{verdict.kind.capitalize()} on {subject_label(measurement)}"
    if verdict.kind not in _LOADING_KINDS:
        return f"{kind}{verdict.message.removeprefix(verdict.kind)}."
    if verdict.kind == VerdictKind.INCONCLUSIVE:
        return f"{kind}{verdict.message.removeprefix(verdict.kind)}; {verdict.next}."
    needs, sustains = 1 / measurement.step_s.median, 1 / measurement.load_s_per_batch.median
    rates = f"needs {format_number(needs)} batches/s, sustains {format_number(sustains)}"
    return f"{kind}: {rates}{name_phase(measurement)}."


def _describe_bottleneck(bottleneck: Bottleneck, *, is_healthy: bool) -> str:
    share, why = f"{bottleneck.fraction:.0%}", bottleneck.why
    if bottleneck.resource == "process-transfer":
        return f"The transfer between processes takes {share} of the loading time: {why}."
    if bottleneck.resource == "device-transfer":
        return f"The copy to the device limits: {why}."
    if bottleneck.stage is None:
        return f"No stage stands out: {why}."
    limits = "would limit first and " if is_healthy else ""
    holds = f"Stage {bottleneck.stage} {limits}takes {share} of the loading time"
    if bottleneck.resource == "unknown":
        return f"{holds}; {why}."
    return f"{holds}, {RESOURCES[bottleneck.resource]} ({why})."


def _describe_help(findings: Findings, measurement: Measurement | None) -> Iterator[str]:
    """Yield a sentence about the change that was tried, or about the first that should help."""
    if tried := findings.verified:
        headroom = ""
        if measurement:
            ratio = measurement.step_s.median / tried.measured_s_per_batch.median
            headroom = f"; headroom then {format_number(ratio, 2)}"
        yield f"Tried {tried.says}{headroom}."
        return
    helpful = [guess for guess in findings.what_if if guess.expected == FASTER]
    simple = [guess for guess in helpful if guess.kind in (NO_THREADS, READS, WORKERS)]
    for best in (*simple, *helpful)[:1]:
        change = best.change
        # The name of a stage keeps its case.
        if best.kind != WITHOUT_STAGE:
            change = change[0].upper() + change[1:]
        yield f"{change} should be faster (not tried: {findings.unverified})."
