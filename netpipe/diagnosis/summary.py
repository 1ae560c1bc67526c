"""The summary of a diagnosis in a few sentences."""

from collections.abc import Iterator
from typing import Final

from netpipe.diagnosis.diagnosis import (
    RESOURCES,
    Bottleneck,
    Findings,
    Prediction,
)
from netpipe.diagnosis.what_if import MAX_HELPFUL_RATIO, READS
from netpipe.results.measurement import Measurement
from netpipe.results.units import format_number, format_seconds
from netpipe.verdict.document import subject_label
from netpipe.verdict.kinds import Verdict, VerdictKind

# The summary of these verdicts names the limiting stage; others end with the verdict's advice.
_LOADING_KINDS: Final = (
    VerdictKind.LOADER_BOUND, VerdictKind.MASKED_LOADER_BOUND, VerdictKind.AT_RISK,
    VerdictKind.HEALTHY, VerdictKind.JITTER, VerdictKind.CONTENTION, VerdictKind.INCONCLUSIVE,
)  # fmt: skip


def summarize(findings: Findings, measurement: Measurement | None, verdict: Verdict | None) -> str:
    """Say why training waits, which stage and resource limit it, and what would help."""
    bottleneck = findings.bottleneck
    sentences = [_describe_rate(findings, measurement, verdict)]
    if verdict is None or verdict.kind in _LOADING_KINDS:
        is_healthy = verdict is not None and verdict.kind == VerdictKind.HEALTHY
        sentences.append(_describe_bottleneck(bottleneck, is_healthy=is_healthy))
        # `bottleneck.why` of an unknown resource already has the clearest effect. If reads wait,
        # leaving out the stage that reads is always the clearest.
        clearest = next(iter(findings.interventions), None)
        is_news = bottleneck.resource != "unknown" and findings.reads is None
        if clearest and clearest.clear_factor and is_news:
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
        derived = f" (derived: in {findings.storage})" if findings.storage else ""
        return (
            f"Loads {format_number(1 / load_s)} batches/s, {format_seconds(load_s)} each{derived}."
        )
    kind = f"{verdict.kind.capitalize()} on {subject_label(measurement)}"
    if verdict.kind not in _LOADING_KINDS:
        return f"{kind}{verdict.message.removeprefix(verdict.kind)}."
    needs, sustains = 1 / measurement.step_s.median, 1 / measurement.load_s_per_batch.median
    return f"{kind}: needs {format_number(needs)} batches/s, sustains {format_number(sustains)}."


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


def _describe_help(findings: Findings) -> Iterator[str]:
    """Yield a sentence about the change that was tried, or else about the best prediction."""
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
    simple = [guess for guess in helpful if guess.kind in ("no-threads", READS, "workers")]
    for best in (*simple, *helpful)[:1]:
        yield f"{_describe_prediction(best)} (not tried: {findings.why_untried})."


def _describe_prediction(prediction: Prediction) -> str:
    change, load_s, headroom = prediction.change, prediction.load_s_per_batch, prediction.headroom
    # The name of a stage keeps its case.
    if prediction.kind not in ("without-stage", "faster-stage"):
        change = change[0].upper() + change[1:]
    scale, unit = (1e3, "ms") if load_s.median < 1 else (1.0, "s")
    median, low, high = (
        format_number(scale * seconds) for seconds in (load_s.median, load_s.low, load_s.high)
    )
    headroom_clause = f"; headroom then {headroom.median:.2g}" if headroom else ""
    return f"{change} would give {median} {unit} [{low}, {high}]{headroom_clause}"
