"""The parts of measurements: verdicts, figures, and several accelerators side by side."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from netpipe.reporting.content import Card, Drawing, Fact, Facts, Headline, Note, Notes, Part
from netpipe.reporting.measurement_table import describe_rates
from netpipe.reporting.plots.canvas import Ink
from netpipe.reporting.plots.rows import Row, draw_amounts, draw_factors, rate_factor
from netpipe.reporting.plots.timeline import build_timeline, draw_distributions, draw_timeline
from netpipe.reporting.tables import Cell, Figure, Table, capitalize, format_ratio
from netpipe.reporting.tones import BY_VERDICT, Tone, pick_worst
from netpipe.results.fields import converter
from netpipe.results.measurement import BlockingLine, Interval, Measurement, parse_measurement
from netpipe.results.step_times import StepTimes
from netpipe.results.units import (
    describe_interval,
    format_bounds,
    format_bytes,
    format_number,
    format_percent,
    format_seconds,
)
from netpipe.verdict.document import subject_label
from netpipe.verdict.kinds import Verdict

_DRAWN_TIMES: Final = (
    ("load_s_per_batch", "L: a batch, the loader alone", Ink.LOAD, "o"),
    ("step_s", "S0: a step, batches at hand", Ink.DEVICE, "s"),
    ("train_s_per_step", "R: a step of the real loop", Ink.TEXT, "D"),
    ("step_synced_s", "S0, blocked after every step", Ink.FAINT, "s"),
    ("step_loaded_s", "S0, on the loader's batches", Ink.FAINT, "s"),
    ("step_shadow_s", "S0, the loader drained beside it", Ink.FAINT, "s"),
    ("step_transfer_s", "S0, a copy before every step", Ink.FAINT, "s"),
    ("host_s_per_step", "H: the loop's own work", Ink.FAINT, "v"),
)


def build_measurements_parts(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of a `netpipe.measurements/1` document; several get an overview first."""
    measurements = document["measurements"]
    parts = tuple(map(build_measurement_part, measurements))
    return (_build_overview(measurements, parts), *parts) if len(parts) > 1 else parts


def _build_overview(documents: Sequence[Mapping[str, Any]], parts: Sequence[Part]) -> Part:
    tones = [part.headline.tone for part in parts]
    fed = sum(tone in (Tone.GOOD, Tone.WARN) for tone in tones)
    pairs = list(zip(parts, documents, strict=True))
    verdicts = "; ".join(f"{part.title}: {document['verdict']['kind']}" for part, document in pairs)
    headline = Headline(pick_worst(tones), f"{fed} of {len(parts)} fed", f"{verdicts}.")
    headrooms = [
        rate_factor(part.title, converter().structure(document["headroom"], Interval))
        for part, document in pairs
    ]
    table = Table(
        "One loader, several accelerators",
        "Medians. A step time and an MFU marked derived come from FLOPs and a peak, not from a "
        "run; the times in a storage come from a stand-in.",
        list(map(_build_accelerator_row, parts)),
    )
    drawing = Drawing(
        "Headroom of each accelerator",
        draw_factors(headrooms, "keeps up"),
        "Step time over load time. Right of the line (●) the loader is fast enough, left of it (✖) "
        "the accelerator waits.",
        table,
    )
    return Part("Side by side", headline, cards=[drawing])


def _build_accelerator_row(part: Part) -> dict[str, Cell]:
    facts = {fact.label: fact.value for fact in part.facts}
    return {
        "accelerator": Cell(part.title),
        "verdict": Cell(part.headline.word, tone=part.headline.tone),
        **{label: Figure(facts.get(label, "")) for label in (
            "load time L", "step time S0", "real step R", "headroom", "stall", "tokens/s", "MFU",
            "workers needed",
        )},
    }  # fmt: skip


def build_measurement_part(document: Mapping[str, Any]) -> Part:
    """Return the part of a `netpipe.measurement/1` document."""
    measurement = parse_measurement(document, "measurement")
    return Part(
        title=f"{subject_label(measurement)} {document.get('test', '')}".strip(),
        headline=_build_headline(document, measurement),
        facts=list(_build_facts(document, measurement)),
        cards=list(_build_cards(document, measurement)),
    )


def _build_headline(document: Mapping[str, Any], measurement: Measurement) -> Headline:
    if "verdict" not in document:
        headroom = format_ratio(measurement.headroom.median)
        return Headline(Tone.PLAIN, "Measured", f"Headroom {headroom}.")
    verdict = converter().structure(document["verdict"], Verdict)
    tone = BY_VERDICT[verdict.kind]
    if tone is Tone.BAD and verdict.passes(measurement):
        tone = Tone.WARN
    return Headline(
        tone,
        word=capitalize(verdict.kind),
        sentence=capitalize(verdict.message.removeprefix(f"{verdict.kind}: ")),
        next="" if verdict.next == "nothing" else capitalize(verdict.next),
    )


def _build_facts(document: Mapping[str, Any], measurement: Measurement) -> Iterator[Fact]:
    yield Fact("load time L", *describe_interval(measurement.load_s_per_batch))
    yield Fact("step time S0", *describe_interval(measurement.step_s))
    yield Fact("real step R", *describe_interval(measurement.train_s_per_step))
    yield Fact("headroom", *describe_interval(measurement.headroom, format_ratio))
    stall = measurement.stall_fraction
    yield Fact("stall", format_percent(stall.median), format_bounds(stall, "{:.0%}".format))
    for label, (median, note) in describe_rates(measurement).items():
        yield Fact(label, median or "not known", note)
    workers, has = document.get("workers_needed"), measurement.loader_processes
    # A loader that keeps up without workers needs none.
    if workers is not None and (workers > 1 or has):
        yield Fact("workers needed", str(workers), f"has {has}")
    if (cores := document.get("cores_needed")) is not None:
        yield Fact("cores needed", format_number(cores, 2), f"has {measurement.host.cores}")


def _build_cards(document: Mapping[str, Any], measurement: Measurement) -> Iterator[Card]:
    yield from build_step_cards(document)
    yield _draw_times(measurement)
    if evidence := document.get("verdict", {}).get("evidence"):
        yield Notes("Evidence", [Note("", line) for line in evidence])
    if measurement.findings:
        notes = [Note(found.name, found.message, Tone.WARN) for found in measurement.findings]
        yield Notes("Other findings", notes)
    if measurement.blocking_lines:
        caption = "Where the loop blocks until a step is done, the worst first."
        rows = list(map(_build_line_row, measurement.blocking_lines))
        yield Table("Lines that wait for the device", caption, rows)
    yield Facts("Further figures", list(_build_figures(measurement)))
    yield from build_environment_cards(document)


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


def _build_line_row(line: BlockingLine) -> dict[str, Cell]:
    return {
        "line": Cell(line.code, f"{line.file}:{line.line}", is_code=True),
        "of the loop's time": Figure(f"{line.fraction:.0%}"),
    }


def build_step_cards(document: Mapping[str, Any]) -> Iterator[Drawing]:
    """Yield drawings of the individual steps, if a measurement document has them."""
    if document.get("timeline"):
        yield _draw_timeline(document)
    if found := document.get("distributions"):
        yield _draw_distributions(found)


def _draw_timeline(document: Mapping[str, Any]) -> Drawing:
    shown = build_timeline(tuple(StepTimes(**step) for step in document["timeline"]))
    # The host sees the end of a step late if the loop holds Python's lock, so a real device
    # seems to work longer.
    bound = "" if document["device"]["platform"] == "emulated" else "at least "
    caption = (
        f"The last {len(shown.working)} steps of the last round. From the end of the first to the "
        f"end of the last, {format_seconds(shown.device_s)}, the device has nothing to do for "
        f"{bound}{shown.idle_fraction:.0%} of the time; the loop waits for batches "
        f"{shown.waiting_fraction:.0%} of its own time."
    )
    return Drawing("Who waits for whom", draw_timeline(shown), caption)


def _draw_distributions(found: Mapping[str, Any]) -> Drawing:
    steps_s, waits_s = found["train_step_s"], found["wait_s"]
    step, wait = list(map(format_seconds, steps_s)), list(map(format_seconds, waits_s))
    caption = (
        f"{found['steps']:,} real steps. Half take {step[50]} or less, the slowest in a hundred "
        f"{step[99]} or more, the slowest of all {step[100]}. Half wait {wait[50]} or less for "
        f"their batch; the longest wait is {wait[100]}."
    )
    return Drawing("All steps, not only the median", draw_distributions(steps_s, waits_s), caption)


def _build_figures(measurement: Measurement) -> Iterator[Fact]:
    utilisation = measurement.accelerator_utilisation.median
    yield Fact("accelerator utilisation", format_percent(utilisation))
    waits = measurement.wait_s
    p50, p95, p99 = map(format_seconds, (waits.p50, waits.p95, waits.p99))
    yield Fact("wait for a batch", p50, f"95th percentile {p95}, 99th {p99}")
    yield Fact("steps done before the next batch", format_percent(measurement.sync_probe_fraction))
    yield Fact("steps in flight", str(measurement.dispatch_depth), "at most")
    if measurement.buffered_batches is not None:
        yield Fact("batches in the buffers", format_number(measurement.buffered_batches))
    yield Fact("batch", format_bytes(measurement.batch_bytes))
    yield Fact("first batch after", format_seconds(measurement.first_batch_s))
    if (peak := measurement.peak_pss_bytes) is not None:
        yield Fact("memory of all processes", format_bytes(peak), "shared pages counted once")
    cpu = f"{format_ratio(measurement.load_cpu_ratio.median)} x"
    yield Fact("CPU of a batch", cpu, "that of the reference loader")
    yield Fact("compilations", str(measurement.compilations))
    if measurement.overhead_fraction is not None:
        yield Fact("the harness's own part", format_percent(measurement.overhead_fraction))
    elsewhere = format_percent(measurement.busy_elsewhere_fraction)
    yield Fact("CPU taken by other programs", elsewhere)
    if measurement.trace:
        yield Fact("trace, for ui.perfetto.dev", measurement.trace)
    elapsed = format_seconds(measurement.elapsed_s)
    yield Fact("measured for", elapsed, f"{measurement.step_s.n} rounds")


def build_environment_cards(document: Mapping[str, Any]) -> Iterator[Card]:
    """Yield a card for the host and, if known, the device, and a card for any versions."""
    host, facts = document["host"], []
    if device := document.get("device"):
        facts.append(Fact("device", device["key"], device["kind"]))
        if device.get("emulated"):
            facts.append(Fact("step time", "derived, not measured", "the device is a clock"))
    if storage := document.get("storage"):
        facts.append(Fact("load time, real step", "derived, not measured", f"from {storage}"))
    facts += [
        Fact("processor", host["cpu"], "in a container" if host["container"] else ""),
        Fact("cores it may use", str(host["cores"])),
        Fact("memory", format_bytes(host["memory_bytes"])),
    ]
    yield Facts("Where", facts)
    if versions := document["versions"]:
        yield Facts("Versions", [Fact(*version) for version in versions.items()])
