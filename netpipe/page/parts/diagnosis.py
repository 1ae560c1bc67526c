"""A diagnosis: which stage, which resource, what was changed, and what each change would give."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from netpipe.diagnosis.diagnosis import (
    Bottleneck,
    Findings,
    Intervention,
    Need,
    Prediction,
    Stage,
    Verification,
    findings_from,
)
from netpipe.page.content import (
    Card,
    Cell,
    Drawing,
    Fact,
    Figure,
    Headline,
    Note,
    Notes,
    Part,
    Table,
)
from netpipe.page.formatting import capitalize, describe_interval, format_ratio, strip_modules
from netpipe.page.parts.lint import build_lint_part
from netpipe.page.parts.measurement import (
    build_environment_cards,
    build_measurement_part,
    build_step_cards,
    draw_headrooms,
)
from netpipe.page.plots.canvas import Ink
from netpipe.page.plots.rows import Row, draw_amounts, draw_factors, draw_stage_bars, rate_factor
from netpipe.page.tones import Tone
from netpipe.results.measurement import Interval, converter
from netpipe.results.units import format_number, format_seconds
from netpipe.verdict.kinds import VerdictKind

_RESOURCES: Final = {
    "cpu": "bound by the CPU",
    "gil": "bound by Python's lock",
    "disk": "bound by the disk",
    "memory": "bound by memory",
    "process-transfer": "bound by sending between processes",
    "device-transfer": "bound by copying to the device",
    "waiting": "it waits",
}

_WITHOUT_A_CAUSE: Final = {"none": "No bottleneck", "unknown": "Bottleneck unknown"}

_LOADER_VERDICTS: Final = (VerdictKind.LOADER_BOUND, VerdictKind.MASKED_LOADER_BOUND)

_SECTIONS: Final = {"workers": "workers", "threads": "threads", "trainer": "training process"}
_STAGES_CAPTION: Final = (
    "Wall and CPU time in a single-thread run; each stage without those that it reads from."
)
_MAX_DRAWN_STAGES: Final = 10
# As a fraction of a batch's time; a shorter bar cannot be seen.
_MIN_DRAWN_FRACTION: Final = 0.005

# How far a prediction may be off its measurement without a remark.
_MAX_ERROR_FRACTION: Final = 0.20

_INTERVENTIONS: Final = {
    "cached-bytes": "bytes from memory",
    "without-stage": "without the stage",
    "two-threads": "two threads",
    "two-processes": "two processes",
    "tiny-payload": "a tiny payload",
    "half-the-cores": "half the cores",
}


def build_diagnosis_parts(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of a `netpipe.diagnosis/1` document: it, its measurement, its lint."""
    findings = findings_from(
        {field.name: document[field.name] for field in fields(Findings) if field.name in document}
    )
    measured = order = None
    if measurement := document["measurement"]:
        # The diagnosis itself shows the steps.
        without_steps = {**measurement, "timeline": [], "distributions": None}
        measured = build_measurement_part(without_steps)
    if document["lint"]["graph"]:
        order = build_lint_part(document["lint"])
    headline = _build_headline(document, findings.bottleneck, measured)
    facts = list(_build_facts(document, findings))
    diagnosis = Part("Diagnosis", headline, facts, list(_build_cards(document, findings)))
    return tuple(filter(None, (diagnosis, measured, order)))


def _build_headline(
    document: Mapping[str, Any], bottleneck: Bottleneck, measured: Part | None
) -> Headline:
    tone, stage = Tone.PLAIN, strip_modules(bottleneck.stage or "")
    word = _WITHOUT_A_CAUSE.get(bottleneck.resource)
    if word is None:
        bound = _RESOURCES[bottleneck.resource]
        word = f"{stage}: {bound}" if stage else capitalize(bound)
    if measured:
        tone = measured.headline.tone
        # Training may wait for something else than the loader, or for nothing.
        if document["measurement"]["verdict"]["kind"] not in _LOADER_VERDICTS:
            word = measured.headline.word
    return Headline(tone, word, document["sentence"], capitalize(bottleneck.why))


def _build_facts(document: Mapping[str, Any], findings: Findings) -> Iterator[Fact]:
    yield Fact("load time", *describe_interval(findings.load_s_per_batch))
    yield Fact("CPU of a batch", *describe_interval(findings.load_cpu_s_per_batch))
    yield Fact("single-thread run", *describe_interval(findings.lane_s_per_batch))
    yield Fact("workers", str(findings.workers), f"{findings.threads} threads in each")
    if stage := findings.bottleneck.stage:
        share = f"{findings.bottleneck.fraction:.0%}"
        yield Fact("the bottleneck's share", share, strip_modules(stage))
    if measurement := document["measurement"]:
        headroom = converter().structure(measurement["headroom"], Interval)
        yield Fact("headroom", *describe_interval(headroom, format_ratio))


def _build_cards(document: Mapping[str, Any], findings: Findings) -> Iterator[Card]:
    measurement = document["measurement"]
    yield from build_step_cards(measurement or {})
    if findings.verified:
        yield _draw_verification(findings.verified)
    elif findings.unverified:
        yield Notes("No prediction was tried", [Note("", findings.unverified)])
    if findings.remarks:
        yield Notes("What could not be done", [Note("", remark) for remark in findings.remarks])
    if findings.stages:
        yield _build_stages(findings)
    if findings.what_if:
        yield _build_predictions(findings, measurement and measurement["step_s"]["median"])
    if findings.interventions:
        yield _build_interventions(findings.interventions)
    if needs := converter().structure(document["needs"], tuple[Need, ...]):
        yield _build_needs(needs)
    yield from build_environment_cards(document)


def _draw_verification(verified: Verification) -> Drawing:
    rows = [
        Row("before", verified.before_s_per_batch, Ink.FAINT, "s"),
        Row("predicted", verified.predicted_s_per_batch, Ink.DEVICE, "D"),
        Row("measured", verified.measured_s_per_batch, Ink.LOAD, "o"),
    ]
    error = abs(verified.error_fraction)
    remark = "" if error <= _MAX_ERROR_FRACTION else ", more than it should be"
    return Drawing(
        f"Tried: {strip_modules(verified.change)}",
        draw_amounts(rows),
        f"{verified.says.rstrip('.')}. The prediction was {error:.0%} off{remark}.",
    )


def _build_stages(findings: Findings) -> Drawing:
    visible = [stage for stage in findings.stages if stage.fraction >= _MIN_DRAWN_FRACTION]
    drawn = visible[:_MAX_DRAWN_STAGES] or findings.stages[:1]
    hidden = len(findings.stages) - len(drawn)
    rebuilt = ", rebuilt without workers and threads" if findings.lane == "rebuilt" else ""
    others = f" Smaller ones are in the table only: {hidden}." if hidden else ""
    return Drawing(
        "What each stage takes",
        draw_stage_bars(drawn, findings.bottleneck.stage),
        f"A single-thread run of the loader{rebuilt} takes "
        f"{format_seconds(findings.lane_s_per_batch.median)} for a batch. Where the clock's bar is "
        f"longer than the CPU's, the stage waits. ▶ marks the bottleneck.{others}",
        Table("Stages", _STAGES_CAPTION, list(map(_build_stage_row, findings.stages))),
    )


def _build_stage_row(stage: Stage) -> dict[str, Cell]:
    places = " · ".join(filter(None, (stage.function, stage.made_at)))
    sampled = ", by samples" if stage.by == "sampling" else ""
    return {
        "stage": Cell(stage.name, places, is_code=True),
        "runs in": Cell(_SECTIONS[stage.section]),
        "wall": Figure(f"{format_seconds(stage.s_per_batch)}{sampled}"),
        "share": Figure(f"{stage.fraction:.0%}"),
        "CPU": Figure(format_seconds(stage.cpu_s_per_batch)),
        "run without it": _build_figure(stage.without_s_per_batch, missing="not tried"),
    }


def _build_figure(
    interval: Interval | None, write: Callable[[float], str] = format_seconds, missing: str = ""
) -> Figure:
    return Figure(*describe_interval(interval, write)) if interval else Figure(missing)


def _rate(headroom: float) -> Tone:
    return Tone.GOOD if headroom >= 1 else Tone.BAD


def _build_predictions(findings: Findings, step_s: float | None) -> Drawing:
    """Show what further changes would give, beside the time of a step; None without one."""
    drawn = [Row("today", findings.load_s_per_batch, Ink.TEXT, "D")]
    drawn += [
        Row(f"with {strip_modules(prediction.change)}", prediction.load_s_per_batch)
        for prediction in findings.what_if
    ]
    advice = "Left of the line, the loader keeps up with the step."
    rows = list(map(_build_prediction_row, findings.what_if))
    return Drawing(
        "What if",
        draw_amounts(drawn, step_s),
        "Load time of a batch, as it is and as predicted, with 95% intervals. "
        f"{advice if step_s is not None else 'Shorter is better.'}",
        Table("Predictions", "The loader's time with each change, and its headroom then.", rows),
    )


def _build_prediction_row(prediction: Prediction) -> dict[str, Cell]:
    headroom = Figure("no step")
    if rated := prediction.headroom:
        headroom = Figure(*describe_interval(rated, format_ratio), _rate(rated.median))
    load_time = _build_figure(prediction.load_s_per_batch)
    return {"with": Cell(prediction.change), "load time": load_time, "headroom": headroom}


def _build_interventions(interventions: Sequence[Intervention]) -> Drawing | Table:
    """Show the changes that were made to learn from them."""
    rows = list(map(_build_intervention_row, interventions))
    caption = "Each measured in turns with the loader unchanged."
    table = Table("Interventions", caption, rows, is_wide=True)
    drawn = [_rate_speedup(tried, tried.speedup) for tried in interventions if tried.speedup]
    if not drawn:
        return table
    return Drawing(
        "What was changed, to learn from it",
        draw_factors(drawn, "no change"),
        "How many times as fast the loader is with each change. Right of the line (●) it helps, "
        "left of it (✖) it costs; ◆ is open.",
        table,
    )


def _build_intervention_row(tried: Intervention) -> dict[str, Cell]:
    return {
        "change": Cell(_INTERVENTIONS[tried.name], tried.what),
        "before": _build_figure(tried.before_s_per_batch),
        "after": _build_figure(tried.after_s_per_batch),
        "times as fast": _build_figure(tried.speedup, format_ratio, missing="not tried"),
        "what it says": Cell(tried.says),
    }


def _rate_speedup(tried: Intervention, speedup: Interval) -> Row:
    label = _INTERVENTIONS[tried.name]
    if tried.clear_factor:
        return rate_factor(label, speedup)
    return Row(label, speedup, Ink.FAINT, "D")


def _build_needs(needs: Sequence[Need]) -> Drawing:
    headrooms = {
        need.accelerator: Interval(need.headroom, need.headroom, need.headroom, 1) for need in needs
    }
    table = Table(
        "What each accelerator needs",
        "Step times are derived from FLOPs and peaks. Workers and cores keep it fed.",
        list(map(_build_need_row, needs)),
    )
    return draw_headrooms(headrooms, table)


def _build_need_row(need: Need) -> dict[str, Cell]:
    return {
        "accelerator": Cell(need.accelerator),
        "step": Figure(format_seconds(need.step_s)),
        "batches/s": Figure(format_number(need.batches_per_s)),
        "workers": Figure(str(need.workers)),
        "cores": Figure(format_number(need.cores, 2)),
        "headroom": Figure(format_ratio(need.headroom), tone=_rate(need.headroom)),
    }
