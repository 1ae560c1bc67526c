"""A measurement: why training waits, and all figures."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from netpipe.page import tones
from netpipe.page.content import (
    Card,
    Cell,
    Drawing,
    Fact,
    Facts,
    Headline,
    Note,
    Notes,
    Part,
    Table,
    Tone,
    head_columns,
)
from netpipe.page.formatting import (
    capitalize,
    format_bounds,
    format_ratio,
    format_size,
    format_whole_percent,
)
from netpipe.page.parts.environment import build_environment_cards
from netpipe.page.parts.steps import build_step_cards
from netpipe.page.plots.canvas import Ink
from netpipe.page.plots.ranges import Row, draw_amounts
from netpipe.results.measurement import Interval, Measurement, parse_measurement
from netpipe.results.units import format_number, format_percent, format_seconds
from netpipe.verdict.kinds import Verdict, VerdictKind
from netpipe.verdict.report import device_label

_DRAWN_TIMES: Final = (
    ("load_s_per_batch", "L: a batch, the loader alone", Ink.LOAD, "o"),
    ("step_s", "S0: a step, batches at hand", Ink.DEVICE, "s"),
    ("train_s_per_step", "R: a step of the real loop", Ink.TEXT, "D"),
    ("step_synced_s", "S0, blocked after every step", Ink.FAINT, "s"),
    ("step_shadow_s", "S0, the loader drained beside it", Ink.FAINT, "s"),
    ("step_transfer_s", "S0, a copy before every step", Ink.FAINT, "s"),
    ("host_s_per_step", "H: the loop's own work", Ink.FAINT, "v"),
)


_FACT_TIMES: Final = (
    ("load time L", "load_s_per_batch"),
    ("step time S0", "step_s"),
    ("real step R", "train_s_per_step"),
)


def build_measurement_part(document: Mapping[str, Any]) -> Part:
    """Return the part of a `netpipe.measurement/1` document."""
    measurement = _parse(document)
    return Part(
        title=device_label(measurement.device),
        headline=_build_headline(document, measurement),
        facts=tuple(_build_facts(document, measurement)),
        cards=tuple(_build_cards(document, measurement)),
    )


def pick_tone(document: Mapping[str, Any]) -> Tone:
    """Return the tone of a measurement's verdict; plain without a verdict."""
    if "verdict" not in document:
        return Tone.PLAIN
    verdict = _parse_verdict(document)
    return tones.rate_verdict(verdict.kind, passes=verdict.passes(_parse(document)))


def name_device(document: Mapping[str, Any]) -> str:
    """Return the name of the device, marked if its step time is derived."""
    return device_label(_parse(document).device)


def _parse(document: Mapping[str, Any]) -> Measurement:
    known = [field.name for field in fields(Measurement) if field.name in document]
    device = {name: value for name, value in document["device"].items() if name != "emulated"}
    values = {name: document[name] for name in ("schema", *known)} | {"device": device}
    return parse_measurement(values, "measurement")


def _parse_verdict(document: Mapping[str, Any]) -> Verdict:
    verdict = document["verdict"]
    kind, evidence = VerdictKind(verdict["kind"]), tuple(verdict["evidence"])
    return Verdict(kind, verdict["message"], evidence, verdict["next"])


def _build_headline(document: Mapping[str, Any], measurement: Measurement) -> Headline:
    if "verdict" not in document:
        headroom = format_ratio(measurement.headroom.median)
        return Headline(Tone.PLAIN, "Measured", f"Headroom {headroom}.")
    verdict = _parse_verdict(document)
    return Headline(
        tone=pick_tone(document),
        word=capitalize(verdict.kind),
        sentence=capitalize(verdict.message.removeprefix(f"{verdict.kind}: ")),
        next="" if verdict.next == "nothing" else capitalize(verdict.next),
    )


def _build_facts(document: Mapping[str, Any], measurement: Measurement) -> Iterator[Fact]:
    for label, name in _FACT_TIMES:
        interval: Interval = getattr(measurement, name)
        yield Fact(label, format_seconds(interval.median), format_bounds(interval))
    headroom, stall = measurement.headroom, measurement.stall_fraction
    yield Fact("headroom", format_ratio(headroom.median), format_bounds(headroom, format_ratio))
    yield Fact("stall", format_percent(stall.median), format_bounds(stall, format_whole_percent))
    if (workers := document.get("workers_needed")) is not None:
        yield Fact("workers needed", str(workers), f"has {measurement.loader_processes}")
    if (cores := document.get("cores_needed")) is not None:
        yield Fact("cores needed", format_number(cores, 2), f"has {measurement.host.cores}")


def _build_cards(document: Mapping[str, Any], measurement: Measurement) -> Iterator[Card]:
    yield from build_step_cards(document)
    yield _draw_times(measurement)
    if evidence := document.get("verdict", {}).get("evidence"):
        yield Notes("Evidence", tuple(Note("", line) for line in evidence))
    if findings := document["findings"]:
        notes = tuple(Note(one["name"], one["message"], Tone.WARN) for one in findings)
        yield Notes("Other findings", notes)
    if measurement.blocking_lines:
        yield _build_blocking(measurement)
    yield Facts("Further figures", tuple(_build_figures(document, measurement)))
    yield from build_environment_cards(document["host"], document["versions"], document["device"])


def _draw_times(measurement: Measurement) -> Drawing:
    rows = [
        Row(label, interval, ink, marker)
        for name, label, ink, marker in _DRAWN_TIMES
        if (interval := getattr(measurement, name)) is not None
    ]
    return Drawing(
        "What a batch and a step take",
        draw_amounts(rows),
        "Medians with their 95% intervals. Where L is right of S0, the loader cannot keep up; "
        "where R is right of both, something else holds the loop up.",
    )


def _build_blocking(measurement: Measurement) -> Table:
    rows = (
        (
            Cell(line.code, note=f"{line.file}:{line.line}", is_code=True),
            Cell(format_whole_percent(line.fraction)),
        )
        for line in measurement.blocking_lines
    )
    return Table(
        "Lines that wait for the device",
        "Where the loop stands still until a step is done, the worst first.",
        head_columns("line", figures=("of the loop's time",)),
        tuple(rows),
    )


def _build_figures(document: Mapping[str, Any], measurement: Measurement) -> Iterator[Fact]:
    waits = measurement.wait_s
    p95, p99 = format_seconds(waits.p95), format_seconds(waits.p99)
    utilisation = measurement.accelerator_utilisation.median
    yield Fact("accelerator utilisation", format_percent(utilisation))
    yield Fact("wait for a batch", format_seconds(waits.p50), f"95th percentile {p95}, 99th {p99}")
    yield Fact("steps done before the next batch", format_percent(measurement.sync_probe_fraction))
    yield Fact("steps in flight", str(measurement.dispatch_depth), "at most")
    if measurement.buffered_batches is not None:
        yield Fact("batches in the buffers", format_number(measurement.buffered_batches))
    yield Fact("batch", format_size(measurement.batch_bytes))
    yield Fact("first batch after", format_seconds(measurement.first_batch_s))
    cpu = f"{format_ratio(measurement.load_cpu_ratio.median)} x"
    yield Fact("CPU of a batch", cpu, "that of the reference loader")
    yield Fact("compilations", str(measurement.compilations))
    if measurement.overhead_fraction is not None:
        yield Fact("the harness's own part", format_percent(measurement.overhead_fraction))
    elsewhere = format_percent(measurement.busy_elsewhere_fraction)
    yield Fact("CPU taken by other programs", elsewhere)
    if trace := document.get("trace"):
        yield Fact("trace, for ui.perfetto.dev", trace)
    elapsed = format_seconds(measurement.elapsed_s)
    yield Fact("measured for", elapsed, f"{measurement.step_s.n} rounds")
