"""A diagnosis: which stage, which resource, and what each change would give."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from netpipe.diagnosis.diagnosis import Bottleneck, Findings, Need, findings_from
from netpipe.page.content import (
    Card,
    Cell,
    Fact,
    Headline,
    Pair,
    Part,
    Table,
    Tone,
    head_columns,
)
from netpipe.page.formatting import (
    capitalize,
    format_bounds,
    format_ratio,
    format_whole_percent,
    strip_modules,
)
from netpipe.page.parts.accelerators import draw_headrooms
from netpipe.page.parts.changes import (
    build_intervention_cards,
    build_prediction_cards,
    build_verification_cards,
)
from netpipe.page.parts.environment import build_environment_cards
from netpipe.page.parts.lint import build_lint_part
from netpipe.page.parts.measurement import build_measurement_part, pick_tone
from netpipe.page.parts.stages import build_stage_cards
from netpipe.page.parts.steps import STEP_FIELDS, build_step_cards
from netpipe.results.measurement import Interval, converter
from netpipe.results.units import format_number, format_seconds
from netpipe.verdict.kinds import VerdictKind

_RESOURCES: Final[Mapping[str, str]] = {
    "cpu": "bound by the CPU",
    "gil": "bound by Python's lock",
    "disk": "bound by the disk",
    "memory": "bound by memory",
    "process-transfer": "bound by sending between processes",
    "device-transfer": "bound by copying to the device",
    "waiting": "it waits",
}

_WITHOUT_A_CAUSE: Final[Mapping[str, str]] = {
    "none": "No bottleneck",
    "unknown": "Bottleneck unknown",
}

_LOADER_VERDICTS: Final = (VerdictKind.LOADER_BOUND, VerdictKind.MASKED_LOADER_BOUND)


def build_diagnosis_parts(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of a `netpipe.diagnosis/1` document: it, its measurement, its lint."""
    findings = findings_from(
        {one.name: document[one.name] for one in fields(Findings) if one.name in document}
    )
    diagnosis = Part(
        "Diagnosis",
        _build_headline(document, findings.bottleneck),
        tuple(_build_facts(document, findings)),
        tuple(_build_cards(document, findings)),
    )
    return (diagnosis, *_build_sources(document))


def _build_headline(document: Mapping[str, Any], bottleneck: Bottleneck) -> Headline:
    """Name the loader's bottleneck, unless training waits for something else or for nothing."""
    measurement = document["measurement"]
    tone = pick_tone(measurement) if measurement else Tone.PLAIN
    kind = measurement["verdict"]["kind"] if measurement else ""
    word = _describe(bottleneck) if kind in ("", *_LOADER_VERDICTS) else capitalize(kind)
    return Headline(tone, word, document["sentence"], capitalize(bottleneck.why))


def _describe(bottleneck: Bottleneck) -> str:
    if bottleneck.resource in _WITHOUT_A_CAUSE:
        return _WITHOUT_A_CAUSE[bottleneck.resource]
    bound = _RESOURCES[bottleneck.resource]
    stage = strip_modules(bottleneck.stage or "")
    return f"{stage}: {bound}" if stage else capitalize(bound)


def _build_facts(document: Mapping[str, Any], findings: Findings) -> Iterator[Fact]:
    times = (
        ("load time", findings.load_s_per_batch),
        ("CPU of a batch", findings.load_cpu_s_per_batch),
        ("single-thread run", findings.lane_s_per_batch),
    )
    for label, interval in times:
        yield Fact(label, format_seconds(interval.median), format_bounds(interval))
    yield Fact("workers", str(findings.workers), f"{findings.threads} threads in each")
    if stage := findings.bottleneck.stage:
        share = format_whole_percent(findings.bottleneck.fraction)
        yield Fact("the bottleneck's share", share, strip_modules(stage))
    if measurement := document["measurement"]:
        headroom = converter().structure(measurement["headroom"], Interval)
        yield Fact("headroom", format_ratio(headroom.median), format_bounds(headroom, format_ratio))


def _build_cards(document: Mapping[str, Any], findings: Findings) -> Iterator[Card]:
    measurement = document["measurement"]
    yield from build_step_cards(measurement or {})
    yield from build_verification_cards(findings)
    yield from build_stage_cards(findings)
    yield from build_prediction_cards(findings, measurement and measurement["step_s"]["median"])
    yield from build_intervention_cards(findings)
    if needs := converter().structure(document["needs"], tuple[Need, ...]):
        yield _build_needs(needs)
    yield from build_environment_cards(document["host"], document["versions"])


def _build_needs(needs: tuple[Need, ...]) -> Pair:
    headrooms = {
        need.accelerator: Interval(need.headroom, need.headroom, need.headroom, 1) for need in needs
    }
    table = Table(
        "What each accelerator needs",
        "Step times are derived from FLOPs and peaks. Workers and cores keep it fed.",
        head_columns("accelerator", figures=("step", "batches/s", "workers", "cores", "headroom")),
        tuple(map(_build_need, needs)),
    )
    return Pair(draw_headrooms(headrooms), table)


def _build_need(need: Need) -> tuple[Cell, ...]:
    return (
        Cell(need.accelerator),
        Cell(format_seconds(need.step_s)),
        Cell(format_number(need.batches_per_s)),
        Cell(str(need.workers)),
        Cell(format_number(need.cores, 2)),
        Cell(format_ratio(need.headroom), Tone.GOOD if need.headroom >= 1 else Tone.BAD),
    )


def _build_sources(document: Mapping[str, Any]) -> Iterator[Part]:
    """Yield the measurement, without the steps that the diagnosis shows, and the lint."""
    if measurement := document["measurement"]:
        yield build_measurement_part(
            {name: value for name, value in measurement.items() if name not in STEP_FIELDS}
        )
    if document["lint"]["graph"]:
        yield build_lint_part(document["lint"])
