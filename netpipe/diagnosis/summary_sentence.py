"""The sentence that a person reads first. Pure."""

from collections.abc import Iterator
from typing import Final

from netpipe.diagnosis.diagnosis import Bottleneck, Findings, Prediction
from netpipe.results.measurement import Interval, Measurement
from netpipe.results.units import format_number, format_seconds
from netpipe.verdict.kinds import Verdict, VerdictKind

_BOUND: Final = {
    "cpu": "bound by the CPU",
    "gil": "bound by the GIL",
    "disk": "bound by the disk",
    "memory": "bound by the memory that all cores share",
    "waiting": "waiting for storage elsewhere, a lock or a sleep",
}
_BY_LOADING: Final = (
    VerdictKind.LOADER_BOUND,
    VerdictKind.MASKED_LOADER_BOUND,
    VerdictKind.AT_RISK,
    VerdictKind.HEALTHY,
    VerdictKind.JITTER,
    VerdictKind.CONTENTION,
    VerdictKind.INCONCLUSIVE,
)
_OF_A_STAGE: Final = ("without-stage", "faster-stage")
_WORTH: Final = 0.95  # of the time as it is


def sentence(
    findings: Findings,
    bottleneck: Bottleneck,
    measurement: Measurement | None,
    verdict: Verdict | None,
) -> str:
    """Say why training waits, which stage and which resource it is, and what would help.

    Args:
        findings: Of the loader.
        bottleneck: What limits, the step considered.
        measurement: Of the loader with its step; None without one.
        verdict: Of the measurement.
    """
    parts = [_rate(findings, measurement, verdict)]
    if verdict is None or verdict.kind in _BY_LOADING:
        waits = verdict is None or verdict.kind != VerdictKind.HEALTHY
        parts += [
            _stage(bottleneck, waits=waits),
            *_clearest(findings, bottleneck),
            *_help(findings),
        ]
    else:
        parts += [f"Next: {verdict.next}."]
    return " ".join(parts)


def _rate(findings: Findings, measurement: Measurement | None, verdict: Verdict | None) -> str:
    load_s = findings.load_s_per_batch.median
    if measurement is None or verdict is None:
        return f"Loads {format_number(1 / load_s)} batches/s, {format_seconds(load_s)} each."
    device = measurement.device
    where = f"{device.key} (derived)" if device.emulated else device.key
    kind = verdict.kind.capitalize()
    if verdict.kind not in _BY_LOADING:
        return f"{kind} on {where}{verdict.message.removeprefix(verdict.kind)}."
    needs, sustains = 1 / measurement.step_s.median, 1 / measurement.load_s_per_batch.median
    return (
        f"{kind} on {where}: needs {format_number(needs)} batches/s, "
        f"sustains {format_number(sustains)}."
    )


def _stage(bottleneck: Bottleneck, *, waits: bool) -> str:
    whose = "Stage" if waits else "What would limit it first: stage"
    if bottleneck.resource == "process-transfer":
        return f"The transfer between processes holds {bottleneck.fraction:.0%}: {bottleneck.why}."
    if bottleneck.resource == "device-transfer":
        return f"The copy to the device limits: {bottleneck.why}."
    if bottleneck.stage is None:
        return f"No stage stands out: {bottleneck.why}."
    holds = f"{whose} {bottleneck.stage} holds {bottleneck.fraction:.0%} of loading"
    if bottleneck.resource == "unknown":
        return f"{holds}; {bottleneck.why}."
    return f"{holds}, {_BOUND[bottleneck.resource]} ({bottleneck.why})."


def _clearest(findings: Findings, bottleneck: Bottleneck) -> Iterator[str]:
    """Say the clearest effect, unless that is why no cause is named."""
    first = next(iter(findings.interventions), None)
    if first and first.clear_factor and bottleneck.resource != "unknown":
        yield f"Clearest effect: {first.effect}."


def _help(findings: Findings) -> Iterator[str]:
    """Say what the change that was tried gives, or the one that promises most."""
    if findings.verified is not None:
        tried = findings.verified
        foreseen = next(one for one in findings.what_if if one.change == tried.change)
        yield (
            f"{_would(foreseen)}; tried: {format_seconds(tried.measured_s_per_batch.median)} "
            f"instead of "
            f"{format_seconds(tried.before_s_per_batch.median)}."
        )
        return
    now_s = findings.load_s_per_batch.median
    helpful = [one for one in findings.what_if if one.load_s_per_batch.median < _WORTH * now_s]
    workers = [one for one in helpful if one.kind in ("no-threads", "workers")]
    best = next(iter((*workers, *helpful)), None)
    if best is not None:
        why = findings.unverified.rpartition(" could not be tried: ")[2]
        yield f"{_would(best)} (not tried: {why})."


def _would(foreseen: Prediction) -> str:
    then = f"; headroom then {foreseen.headroom.median:.2g}" if foreseen.headroom else ""
    first = foreseen.change
    if foreseen.kind not in _OF_A_STAGE:  # whose name begins as the user wrote it
        first = first[0].upper() + first[1:]
    return f"{first} would give {_in_brackets(foreseen.load_s_per_batch)}{then}"


def _in_brackets(interval: Interval) -> str:
    scale, unit = (1e3, "ms") if interval.median < 1 else (1.0, "s")
    median, low, high = (
        format_number(scale * one) for one in (interval.median, interval.low, interval.high)
    )
    return f"{median} {unit} [{low}, {high}]"
