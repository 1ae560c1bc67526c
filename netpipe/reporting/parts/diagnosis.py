"""The parts of a diagnosis: the bottleneck, the interventions and the changes that may help."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from netpipe.diagnosis.diagnosis import RESOURCES, Bottleneck, Findings, Intervention, Verification
from netpipe.reporting.content import Card, Drawing, Fact, Headline, Note, Notes, Part
from netpipe.reporting.diagnosis_tables import (
    build_intervention_table,
    build_prediction_table,
    build_read_table,
    build_stage_table,
    build_start_up_table,
)
from netpipe.reporting.parts.lint import build_lint_part
from netpipe.reporting.parts.measurement import (
    build_environment_cards,
    build_measurement_part,
    build_step_cards,
)
from netpipe.reporting.plots.canvas import Ink
from netpipe.reporting.plots.rows import (
    Row,
    draw_amounts,
    draw_factors,
    draw_stage_bars,
    rate_factor,
)
from netpipe.reporting.tables import Table, capitalize, format_ratio, strip_modules
from netpipe.reporting.tones import Tone
from netpipe.results.fields import converter
from netpipe.results.measurement import Interval
from netpipe.results.units import describe_interval, format_count, format_seconds
from netpipe.verdict.kinds import VerdictKind

_LOADER_VERDICTS: Final = (VerdictKind.LOADER_BOUND, VerdictKind.MASKED_LOADER_BOUND)

_MAX_DRAWN_STAGES: Final = 10
# As a fraction of a batch's time. Shorter bars would be invisible.
_MIN_DRAWN_FRACTION: Final = 0.005


def build_diagnosis_parts(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of a `netpipe.diagnosis/1` document: diagnosis, measurement, lint."""
    findings = converter().structure(document, Findings)
    measured = order = None
    if measurement := document["measurement"]:
        # The diagnosis part shows the steps itself.
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
    bound, is_known = RESOURCES[bottleneck.resource], bottleneck.resource != "unknown"
    word = f"{stage}: {bound}" if stage and is_known else capitalize(bound)
    if measured:
        tone = measured.headline.tone
        # Training may wait for something other than the loader, or not at all.
        if document["measurement"]["verdict"]["kind"] not in _LOADER_VERDICTS:
            word = measured.headline.word
    return Headline(tone, word, document["sentence"], capitalize(bottleneck.why))


def _build_facts(document: Mapping[str, Any], findings: Findings) -> Iterator[Fact]:
    yield Fact("load time", *describe_interval(findings.load_s_per_batch))
    yield Fact("CPU of a batch", *describe_interval(findings.load_cpu_s_per_batch))
    yield Fact("single-thread run", *describe_interval(findings.lane_s_per_batch))
    threads = format_count(findings.threads, "thread")
    yield Fact("workers", str(findings.workers), f"{threads} in each")
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
        step_s = measurement and measurement["step_s"]["median"]
        yield _draw_verification(findings.verified, step_s)
    elif findings.unverified:
        yield Notes("No change was tried", [Note("", findings.unverified)])
    if findings.remarks:
        yield Notes("What could not be done", [Note("", remark) for remark in findings.remarks])
    if findings.stages:
        yield _build_stages(findings)
    if findings.reads:
        yield build_read_table(findings.reads)
    if findings.what_if:
        yield build_prediction_table(findings.what_if)
    if findings.interventions:
        yield _build_interventions(findings.interventions)
    if findings.start_up:
        yield build_start_up_table(findings.start_up)
    yield from build_environment_cards(document)


def _draw_verification(verified: Verification, step_s: float | None) -> Drawing:
    rows = [
        Row("before", verified.before_s_per_batch, Ink.FAINT, "s"),
        Row("after", verified.measured_s_per_batch, Ink.LOAD, "o"),
    ]
    title = f"Tried: {strip_modules(verified.change)}"
    advice = "" if step_s is None else " Left of the line, the loader keeps up with the step."
    return Drawing(title, draw_amounts(rows, step_s), f"{strip_modules(verified.says)}.{advice}")


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
        f"{format_seconds(findings.lane_s_per_batch.median)} for a batch. Where the wall time's "
        f"bar is longer than the CPU time's, the stage waits. ▶ marks the bottleneck.{others}",
        build_stage_table(findings),
    )


def _build_interventions(interventions: Sequence[Intervention]) -> Drawing | Table:
    """Return a drawing of the effects of the interventions, or a table if none has a speedup."""
    table = replace(build_intervention_table(interventions), is_wide=True)
    drawn = [_rate_speedup(tried, tried.speedup) for tried in interventions if tried.speedup]
    if not drawn:
        return table
    return Drawing(
        "Interventions",
        draw_factors(drawn, "no change"),
        "How many times as fast the loader is with each change. Right of the line (●) it helps, "
        "left of it (✖) it costs; ◆ is undecided.",
        table,
    )


def _rate_speedup(tried: Intervention, speedup: Interval) -> Row:
    if tried.clear_factor:
        return rate_factor(tried.label, speedup)
    return Row(tried.label, speedup, Ink.FAINT, "D")
