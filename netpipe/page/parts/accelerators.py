"""Several accelerators side by side: which of them one loader keeps fed."""

from collections.abc import Mapping, Sequence
from typing import Any

from netpipe.page import tones
from netpipe.page.content import Cell, Drawing, Headline, Pair, Part, Table, Tone, head_columns
from netpipe.page.formatting import capitalize, format_ratio
from netpipe.page.parts.measurement import build_measurement_part, name_device, pick_tone
from netpipe.page.plots.canvas import Ink
from netpipe.page.plots.ranges import Line, Row, draw_factors
from netpipe.results.measurement import Interval, converter
from netpipe.results.units import format_percent, format_seconds


def build_measurements_parts(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of a `netpipe.measurements/1` document: an overview, then each."""
    measurements = document["measurements"]
    each = tuple(map(build_measurement_part, measurements))
    return (_build_overview(measurements), *each) if len(each) > 1 else each


def draw_headrooms(headrooms: Mapping[str, Interval]) -> Drawing:
    """Draw the headroom of each accelerator, at least one, by its name."""
    rows = []
    for name, headroom in headrooms.items():
        ink, marker = (Ink.GOOD, "o") if headroom.median >= 1 else (Ink.BAD, "X")
        rows.append(Row(name, headroom, ink, marker))
    return Drawing(
        "Headroom of each accelerator",
        draw_factors(rows, Line(1.0, "keeps up")),
        "Step time over load time. Right of the line (●) the loader is fast enough, left of it (✖) "
        "the accelerator waits.",
    )


def _build_overview(measurements: Sequence[Mapping[str, Any]]) -> Part:
    each_tone = [pick_tone(one) for one in measurements]
    fed = sum(tone in (Tone.GOOD, Tone.WARN) for tone in each_tone)
    verdicts = "; ".join(f"{name_device(one)}: {one['verdict']['kind']}" for one in measurements)
    headline = Headline(
        tones.pick_worst(each_tone), f"{fed} of {len(measurements)} fed", f"{verdicts}."
    )
    headrooms = {
        name_device(one): converter().structure(one["headroom"], Interval) for one in measurements
    }
    cards = (Pair(draw_headrooms(headrooms), _build_table(measurements)),)
    return Part("Side by side", headline, cards=cards)


def _build_table(measurements: Sequence[Mapping[str, Any]]) -> Table:
    figures = ("load L", "step S0", "real step R", "headroom", "stall", "workers needed")
    return Table(
        "One loader, several accelerators",
        "Medians. A step time marked derived comes from FLOPs and a peak, not from a run.",
        head_columns("accelerator", "verdict", figures=figures),
        tuple(map(_build_row, measurements)),
    )


def _build_row(document: Mapping[str, Any]) -> tuple[Cell, ...]:
    times = ("load_s_per_batch", "step_s", "train_s_per_step")
    return (
        Cell(name_device(document)),
        Cell(capitalize(document["verdict"]["kind"]), pick_tone(document)),
        *(Cell(format_seconds(document[name]["median"])) for name in times),
        Cell(format_ratio(document["headroom"]["median"])),
        Cell(format_percent(document["stall_fraction"]["median"])),
        Cell(str(document.get("workers_needed") or "")),
    )
