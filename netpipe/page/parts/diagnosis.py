"""A diagnosis: which stage, which resource, and what each change would give."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from netpipe.diagnosis.diagnosis import Bottleneck, Findings, Need, findings_from
from netpipe.page.content import Card, Cell, Column, Fact, Headline, Pair, Part, Table, Tone
from netpipe.page.parts.accelerators import headroom_drawing
from netpipe.page.parts.changes import intervention_cards, prediction_cards, verified_cards
from netpipe.page.parts.environment import surroundings
from netpipe.page.parts.lint import lint_part
from netpipe.page.parts.measurement import measurement_part, tone_of
from netpipe.page.parts.stages import stage_cards
from netpipe.page.parts.steps import STEP_FIELDS, step_cards
from netpipe.page.wording import bounds, ratio, sentence, whole_percent, without_modules
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
    "none": "Nothing holds it up",
    "unknown": "What holds it up is open",
}

_OF_THE_LOADER: Final = (VerdictKind.LOADER_BOUND, VerdictKind.MASKED_LOADER_BOUND)


def diagnosis_parts(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return what is shown of a `netpipe.diagnosis/1` document: it, its measurement, its order."""
    return (_diagnosis(document), *_measured(document), *_linted(document))


def _diagnosis(document: Mapping[str, Any]) -> Part:
    found = findings_from(
        {one.name: document[one.name] for one in fields(Findings) if one.name in document}
    )
    return Part(
        "Diagnosis",
        _headline(document, found.bottleneck),
        tuple(_facts(document, found)),
        tuple(_cards(document, found)),
    )


def _headline(document: Mapping[str, Any], bottleneck: Bottleneck) -> Headline:
    """Name what binds the loader, unless training waits for something else or for nothing."""
    measurement = document["measurement"]
    tone = tone_of(measurement) if measurement else Tone.PLAIN
    kind = measurement["verdict"]["kind"] if measurement else ""
    word = _bound(bottleneck) if kind in ("", *_OF_THE_LOADER) else sentence(kind)
    return Headline(tone, word, document["sentence"], sentence(bottleneck.why))


def _bound(bottleneck: Bottleneck) -> str:
    if bottleneck.resource in _WITHOUT_A_CAUSE:
        return _WITHOUT_A_CAUSE[bottleneck.resource]
    bound = _RESOURCES[bottleneck.resource]
    stage = without_modules(bottleneck.stage or "")
    return f"{stage}: {bound}" if stage else sentence(bound)


def _facts(document: Mapping[str, Any], found: Findings) -> Iterator[Fact]:
    times = (
        ("load time", found.load_s_per_batch),
        ("CPU of a batch", found.load_cpu_s_per_batch),
        ("one lane", found.lane_s_per_batch),
    )
    for label, interval in times:
        yield Fact(label, format_seconds(interval.median), bounds(interval))
    yield Fact("workers", str(found.workers), f"{found.threads} threads in each")
    if found.bottleneck.stage:
        of_it = whole_percent(found.bottleneck.fraction)
        stage = without_modules(found.bottleneck.stage)
        yield Fact("the bottleneck's share", of_it, stage)
    if measurement := document["measurement"]:
        headroom = converter().structure(measurement["headroom"], Interval)
        yield Fact("headroom", ratio(headroom.median), bounds(headroom, ratio))


def _cards(document: Mapping[str, Any], found: Findings) -> Iterator[Card]:
    measurement = document["measurement"]
    yield from step_cards(measurement or {})
    yield from verified_cards(found)
    yield from stage_cards(found)
    yield from prediction_cards(found, measurement and measurement["step_s"]["median"])
    yield from intervention_cards(found)
    yield from _needs(converter().structure(document["needs"], tuple[Need, ...]))
    yield from surroundings(document["host"], document["versions"])


def _needs(needs: tuple[Need, ...]) -> Iterator[Card]:
    if not needs:
        return
    drawing = headroom_drawing({one.accelerator: _exactly(one.headroom) for one in needs})
    table = Table(
        "What each accelerator needs",
        "Step times are derived from FLOPs and peaks. Workers and cores keep it fed.",
        (Column("accelerator"), *(Column(name, is_figure=True) for name in
         ("step", "batches/s", "workers", "cores", "headroom"))),
        tuple(_need(one) for one in needs),
    )  # fmt: skip
    yield Pair(drawing, table)


def _exactly(value: float) -> Interval:
    return Interval(value, value, value, 1)


def _need(need: Need) -> tuple[Cell, ...]:
    tone = Tone.GOOD if need.headroom >= 1 else Tone.BAD
    return (
        Cell(need.accelerator),
        Cell(format_seconds(need.step_s)),
        Cell(format_number(need.batches_per_s)),
        Cell(str(need.workers)),
        Cell(format_number(need.cores, 2)),
        Cell(ratio(need.headroom), tone),
    )


def _measured(document: Mapping[str, Any]) -> Iterator[Part]:
    """Give the measurement without the steps, which stand above."""
    if measurement := document["measurement"]:
        yield measurement_part(
            {name: value for name, value in measurement.items() if name not in STEP_FIELDS}
        )


def _linted(document: Mapping[str, Any]) -> Iterator[Part]:
    if document["lint"]["graph"]:
        yield lint_part(document["lint"])
