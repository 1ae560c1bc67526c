"""The interventions of a diagnosis, its predictions, and the one that was verified."""

from collections.abc import Iterator
from typing import Final

from netpipe.diagnosis.diagnosis import (
    Findings,
    Intervention,
    Prediction,
    Verification,
    clear_factor,
)
from netpipe.page.content import (
    Card,
    Cell,
    Column,
    Drawing,
    Note,
    Notes,
    Pair,
    Table,
    Tone,
    head_columns,
)
from netpipe.page.formatting import format_bounds, format_ratio, format_whole_percent, strip_modules
from netpipe.page.plots.canvas import Ink
from netpipe.page.plots.ranges import Line, Row, draw_amounts, draw_factors
from netpipe.results.measurement import Interval
from netpipe.results.units import format_seconds

# How far a prediction may be off its measurement without a remark.
_MAX_ERROR_FRACTION: Final = 0.20

_NAMES: Final = {
    "cached-bytes": "bytes from memory",
    "without-stage": "without the stage",
    "two-threads": "two threads",
    "two-processes": "two processes",
    "tiny-payload": "a tiny payload",
    "half-the-cores": "half the cores",
}


def build_intervention_cards(findings: Findings) -> Iterator[Card]:
    """Yield the changes that were made to learn from them."""
    if not findings.interventions:
        return
    figures = head_columns("change", figures=("before", "after", "times as fast"))
    table = Table(
        "Interventions",
        "Each measured in turns with the loader unchanged.",
        (*figures, Column("what it says")),
        tuple(map(_build_intervention, findings.interventions)),
        is_wide=True,
    )
    rows = [_build_row(one, one.speedup) for one in findings.interventions if one.speedup]
    yield Pair(_draw_speedups(rows), table) if rows else table


def build_prediction_cards(findings: Findings, step_s: float | None) -> Iterator[Card]:
    """Yield what further changes would give, beside the time of a step; None without one."""
    if not findings.what_if:
        return
    rows = [Row("today", findings.load_s_per_batch, Ink.TEXT, "D")]
    rows += (
        Row(f"with {strip_modules(one.change)}", one.load_s_per_batch) for one in findings.what_if
    )
    has_step = step_s is not None
    advice = "Left of the line, the loader keeps up with the step."
    drawing = Drawing(
        "What if",
        draw_amounts(rows, None if step_s is None else Line(step_s, "a step")),
        "Load time of a batch, as it is and as predicted, with 95% intervals. "
        f"{advice if has_step else 'Shorter is better.'}",
    )
    table = Table(
        "Predictions",
        "The loader's time with each change, and its headroom then.",
        head_columns("with", figures=("load time", "headroom")),
        tuple(map(_build_prediction, findings.what_if)),
    )
    yield Pair(drawing, table)


def build_verification_cards(findings: Findings) -> Iterator[Card]:
    """Yield the prediction that was compared with a measurement, or why there is none."""
    if findings.verified:
        yield _draw_verification(findings.verified)
    elif findings.unverified:
        yield Notes("No prediction was tried", (Note("", findings.unverified),))
    if findings.remarks:
        notes = tuple(Note("", remark) for remark in findings.remarks)
        yield Notes("What could not be done", notes)


def _build_row(intervention: Intervention, speedup: Interval) -> Row:
    ink, marker = Ink.FAINT, "D"
    if clear_factor(speedup):
        ink, marker = (Ink.GOOD, "o") if speedup.median > 1 else (Ink.BAD, "X")
    return Row(_NAMES[intervention.name], speedup, ink, marker)


def _draw_speedups(rows: list[Row]) -> Drawing:
    return Drawing(
        "What was changed, to learn from it",
        draw_factors(rows, Line(1.0, "no change")),
        "How many times as fast the loader is with each change. Right of the line (●) it helps, "
        "left of it (✖) it costs; ◆ is open.",
    )


def _draw_verification(verified: Verification) -> Drawing:
    rows = [
        Row("before", verified.before_s_per_batch, Ink.FAINT, "s"),
        Row("predicted", verified.predicted_s_per_batch, Ink.DEVICE, "D"),
        Row("measured", verified.measured_s_per_batch, Ink.LOAD, "o"),
    ]
    error = abs(verified.error_fraction)
    remark = "" if error <= _MAX_ERROR_FRACTION else ", more than it should be"
    off = f"The prediction was {format_whole_percent(error)} off{remark}."
    return Drawing(
        f"Tried: {strip_modules(verified.change)}",
        draw_amounts(rows),
        f"{verified.says.rstrip('.')}. {off}",
    )


def _build_intervention(one: Intervention) -> tuple[Cell, ...]:
    return (
        Cell(_NAMES[one.name], note=one.what),
        _build_time(one.before_s_per_batch),
        _build_time(one.after_s_per_batch),
        Cell(format_ratio(one.speedup.median), note=format_bounds(one.speedup, format_ratio))
        if one.speedup
        else Cell("not tried"),
        Cell(one.says),
    )


def _build_prediction(one: Prediction) -> tuple[Cell, ...]:
    headroom = Cell("no step")
    if one.headroom is not None:
        tone = Tone.GOOD if one.headroom.median >= 1 else Tone.BAD
        median = format_ratio(one.headroom.median)
        headroom = Cell(median, tone, format_bounds(one.headroom, format_ratio))
    return (Cell(one.change), _build_time(one.load_s_per_batch), headroom)


def _build_time(interval: Interval | None) -> Cell:
    if interval is None:
        return Cell("")
    return Cell(format_seconds(interval.median), note=format_bounds(interval))
