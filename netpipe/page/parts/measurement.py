"""A measurement: why training waits, and all that was seen."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from netpipe.page import tones
from netpipe.page.content import (
    Card,
    Cell,
    Column,
    Drawing,
    Fact,
    Facts,
    Headline,
    Note,
    Notes,
    Part,
    Table,
    Tone,
)
from netpipe.page.parts.environment import surroundings
from netpipe.page.parts.steps import step_cards
from netpipe.page.plots.canvas import Ink
from netpipe.page.plots.ranges import Row, durations
from netpipe.page.wording import bounds, ratio, sentence, size, whole_percent
from netpipe.results.measurement import Interval, Measurement, parse_measurement
from netpipe.results.units import format_number, format_percent, format_seconds
from netpipe.verdict.kinds import Verdict, VerdictKind
from netpipe.verdict.report import device_label

_TIMES: Final = (
    ("load_s_per_batch", "L: a batch, the loader alone", Ink.LOAD, "o"),
    ("step_s", "S0: a step, batches at hand", Ink.DEVICE, "s"),
    ("train_s_per_step", "R: a step of the real loop", Ink.TEXT, "D"),
    ("step_synced_s", "S0, blocked after every step", Ink.FAINT, "s"),
    ("step_shadow_s", "S0, the loader drained beside it", Ink.FAINT, "s"),
    ("step_transfer_s", "S0, a copy before every step", Ink.FAINT, "s"),
    ("host_s_per_step", "H: the loop's own work", Ink.FAINT, "v"),
)


def measurement_part(document: Mapping[str, Any]) -> Part:
    """Return what is shown of a `netpipe.measurement/1` document."""
    measured = _measured(document)
    return Part(
        title=device_label(measured.device),
        headline=_headline(document, measured),
        facts=tuple(_facts(document, measured)),
        cards=tuple(measurement_cards(document)),
    )


def measurement_cards(document: Mapping[str, Any]) -> Iterator[Card]:
    """Give the cards of a measurement, the most telling first."""
    measured = _measured(document)
    yield from step_cards(document)
    yield _times(measured)
    yield from _said(document)
    if measured.blocking_lines:
        yield _blocking(measured)
    yield Facts("Further figures", tuple(_further(document, measured)))
    yield from surroundings(document["host"], document["versions"], document["device"])


def tone_of(document: Mapping[str, Any]) -> Tone:
    """Return how a measurement's verdict is taken; plain where it holds none."""
    if "verdict" not in document:
        return Tone.PLAIN
    verdict = _verdict(document)
    return tones.of_verdict(verdict.kind, passes=verdict.passes(_measured(document)))


def device_of(document: Mapping[str, Any]) -> str:
    """Return the name of the device, marked where its step time was derived."""
    return device_label(_measured(document).device)


def _measured(document: Mapping[str, Any]) -> Measurement:
    known = [one.name for one in fields(Measurement) if one.name in document]
    device = {name: value for name, value in document["device"].items() if name != "emulated"}
    values = {name: document[name] for name in ("schema", *known)} | {"device": device}
    return parse_measurement(values, "measurement")


def _verdict(document: Mapping[str, Any]) -> Verdict:
    said = document["verdict"]
    kind = VerdictKind(said["kind"])
    return Verdict(kind, said["message"], tuple(said["evidence"]), said["next"])


def _headline(document: Mapping[str, Any], measured: Measurement) -> Headline:
    if "verdict" not in document:
        return Headline(Tone.PLAIN, "Measured", f"Headroom {ratio(measured.headroom.median)}.")
    verdict = _verdict(document)
    return Headline(
        tone=tone_of(document),
        word=sentence(verdict.kind),
        sentence=sentence(verdict.message.removeprefix(f"{verdict.kind}: ")),
        next="" if verdict.next == "nothing" else sentence(verdict.next),
    )


def _facts(document: Mapping[str, Any], measured: Measurement) -> Iterator[Fact]:
    times = (("load time L", "load_s_per_batch"), ("step time S0", "step_s"),
             ("real step R", "train_s_per_step"))  # fmt: skip
    for label, name in times:
        interval: Interval = getattr(measured, name)
        yield Fact(label, format_seconds(interval.median), bounds(interval))
    yield Fact("headroom", ratio(measured.headroom.median), bounds(measured.headroom, ratio))
    stall = measured.stall_fraction
    yield Fact("stall", format_percent(stall.median), bounds(stall, whole_percent))
    if document.get("workers_needed") is not None:
        has = f"has {measured.loader_processes}"
        yield Fact("workers needed", str(document["workers_needed"]), has)
    if document.get("cores_needed") is not None:
        has = f"has {measured.host.cores}"
        yield Fact("cores needed", format_number(document["cores_needed"], 2), has)


def _times(measured: Measurement) -> Drawing:
    found = [
        Row(label, interval, ink, marker)
        for name, label, ink, marker in _TIMES
        if (interval := getattr(measured, name)) is not None
    ]
    return Drawing(
        "What a batch and a step take",
        durations(found),
        "Medians with their 95% intervals. Where L is right of S0, the loader cannot keep up; "
        "where R is right of both, something else holds the loop up.",
    )


def _said(document: Mapping[str, Any]) -> Iterator[Notes]:
    if evidence := document.get("verdict", {}).get("evidence"):
        yield Notes("Evidence", tuple(Note("", line) for line in evidence))
    if findings := document["findings"]:
        notes = tuple(Note(one["name"], one["message"], Tone.WARN) for one in findings)
        yield Notes("Also seen", notes)


def _blocking(measured: Measurement) -> Table:
    return Table(
        "Lines that wait for the device",
        "Where the loop stands still until a step is done, the worst first.",
        (Column("line"), Column("of the loop's time", is_figure=True)),
        tuple(
            (
                Cell(one.code, note=f"{one.file}:{one.line}", is_code=True),
                Cell(whole_percent(one.fraction)),
            )
            for one in measured.blocking_lines
        ),
    )


def _further(document: Mapping[str, Any], measured: Measurement) -> Iterator[Fact]:
    waits = measured.wait_s
    yield Fact("accelerator utilisation", format_percent(measured.accelerator_utilisation.median))
    yield Fact("wait for a batch", format_seconds(waits.p50),
               f"95th percentile {format_seconds(waits.p95)}, "
               f"99th {format_seconds(waits.p99)}")  # fmt: skip
    yield Fact("steps done before the next batch", format_percent(measured.sync_probe_fraction))
    yield Fact("steps in flight", str(measured.dispatch_depth), "at most")
    if measured.buffered_batches is not None:
        yield Fact("batches in the buffers", format_number(measured.buffered_batches))
    yield Fact("batch", size(measured.batch_bytes))
    yield Fact("first batch after", format_seconds(measured.first_batch_s))
    yield Fact("CPU of a batch", f"{ratio(measured.load_cpu_ratio.median)} x",
               "that of the reference loader")  # fmt: skip
    yield Fact("compilations", str(measured.compilations))
    if measured.overhead_fraction is not None:
        yield Fact("the harness's own part", format_percent(measured.overhead_fraction))
    yield Fact("CPU taken by other programs", format_percent(measured.busy_elsewhere_fraction))
    if trace := document.get("trace"):
        yield Fact("trace, for ui.perfetto.dev", trace)
    yield Fact("measured for", format_seconds(measured.elapsed_s), f"{measured.step_s.n} rounds")
