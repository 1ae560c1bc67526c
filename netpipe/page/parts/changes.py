"""What was changed to learn from it, what further changes would give, and the one that was made."""

from collections.abc import Iterator, Sequence
from typing import Final

from netpipe.diagnosis.diagnosis import (
    Findings,
    Intervention,
    Prediction,
    Verification,
    clear_factor,
)
from netpipe.page.content import Card, Cell, Column, Drawing, Note, Notes, Pair, Table, Tone
from netpipe.page.plots.canvas import Ink
from netpipe.page.plots.ranges import Line, Row, durations, factors
from netpipe.page.wording import bounds, ratio, whole_percent, without_modules
from netpipe.results.measurement import Interval
from netpipe.results.units import format_seconds

_CLOSE: Final = 0.20
"""How far a prediction may be off its measurement to be called right."""

_LEFT_OF_THE_STEP: Final = "Left of the line, the loader keeps up with the step."

_NAMES: Final = {
    "cached-bytes": "bytes from memory",
    "without-stage": "without the stage",
    "two-threads": "two threads",
    "two-processes": "two processes",
    "tiny-payload": "a tiny payload",
    "half-the-cores": "half the cores",
}


def intervention_cards(found: Findings) -> Iterator[Card]:
    """Give the changes that were made for the sake of knowledge."""
    made = [(_NAMES[one.name], one.speedup) for one in found.interventions if one.speedup]
    if made:
        yield Pair(_speedups(made), _interventions(found))
    elif found.interventions:
        yield _interventions(found)


def prediction_cards(found: Findings, step_s: float | None) -> Iterator[Card]:
    """Give what further changes would give, beside the time of a step; None without one."""
    if not found.what_if:
        return
    today = Row("today", found.load_s_per_batch, Ink.TEXT, "D")
    foretold = [
        Row(f"with {without_modules(one.change)}", one.load_s_per_batch) for one in found.what_if
    ]
    drawing = Drawing(
        "What if",
        durations([today, *foretold], None if step_s is None else Line(step_s, "a step")),
        "Load time of a batch, as it is and as predicted, with 95% intervals. "
        f"{'Shorter is better.' if step_s is None else _LEFT_OF_THE_STEP}",
    )
    table = Table(
        "Predictions",
        "What the loader would take, and the headroom it would have then.",
        (Column("with"), Column("load time", is_figure=True), Column("headroom", is_figure=True)),
        tuple(_prediction(one) for one in found.what_if),
    )
    yield Pair(drawing, table)


def verified_cards(found: Findings) -> Iterator[Card]:
    """Give the prediction that was held against a measurement, or why none was."""
    if found.verified:
        yield _verified(found.verified)
    elif found.unverified:
        yield Notes("No prediction was tried", (Note("", found.unverified),))
    if found.remarks:
        yield Notes("What could not be done", tuple(Note("", one) for one in found.remarks))


def _speedups(made: Sequence[tuple[str, Interval]]) -> Drawing:
    return Drawing(
        "What was changed, to learn from it",
        factors([Row(name, one, *_look(one)) for name, one in made], Line(1.0, "no change")),
        "How many times as fast the loader is with each change. Right of the line (●) it helps, "
        "left of it (✖) it costs; ◆ is open.",
    )


def _interventions(found: Findings) -> Table:
    columns = ("before", "after", "times as fast")
    return Table(
        "Interventions",
        "Each measured in turns with the loader unchanged.",
        (
            Column("change"),
            *(Column(name, is_figure=True) for name in columns),
            Column("what it says"),
        ),
        tuple(_intervention(one) for one in found.interventions),
        is_wide=True,
    )


def _verified(verified: Verification) -> Drawing:
    rows = [
        Row("before", verified.before_s_per_batch, Ink.FAINT, "s"),
        Row("predicted", verified.predicted_s_per_batch, Ink.DEVICE, "D"),
        Row("measured", verified.measured_s_per_batch, Ink.LOAD, "o"),
    ]
    is_close = abs(verified.error_fraction) <= _CLOSE
    off = f"The prediction was {whole_percent(abs(verified.error_fraction))} off"
    return Drawing(
        f"Tried: {without_modules(verified.change)}",
        durations(rows),
        f"{verified.says.rstrip('.')}. {off}{'' if is_close else ', more than it should be'}.",
    )


def _look(speedup: Interval) -> tuple[Ink, str]:
    if not clear_factor(speedup):
        return Ink.FAINT, "D"
    return (Ink.GOOD, "o") if speedup.median > 1 else (Ink.BAD, "X")


def _intervention(one: Intervention) -> tuple[Cell, ...]:
    return (
        Cell(_NAMES[one.name], note=one.what),
        *(_time(time) for time in (one.before_s_per_batch, one.after_s_per_batch)),
        Cell(ratio(one.speedup.median), note=bounds(one.speedup, ratio))
        if one.speedup
        else Cell("not tried"),
        Cell(one.says),
    )


def _time(interval: Interval | None) -> Cell:
    return Cell(format_seconds(interval.median), note=bounds(interval)) if interval else Cell("")


def _prediction(one: Prediction) -> tuple[Cell, ...]:
    if one.headroom is None:
        headroom = Cell("no step")
    else:
        tone = Tone.GOOD if one.headroom.median >= 1 else Tone.BAD
        headroom = Cell(ratio(one.headroom.median), tone, bounds(one.headroom, ratio))
    return (Cell(one.change), _time(one.load_s_per_batch), headroom)
