"""Several accelerators side by side: how far one loader would keep each of them fed."""

from collections.abc import Mapping, Sequence
from typing import Any

from netpipe.page import tones
from netpipe.page.content import Cell, Column, Drawing, Headline, Pair, Part, Table, Tone
from netpipe.page.parts.measurement import device_of, measurement_part, tone_of
from netpipe.page.plots.canvas import Ink
from netpipe.page.plots.ranges import Line, Row, factors
from netpipe.page.wording import ratio, sentence
from netpipe.results.measurement import Interval, converter
from netpipe.results.units import format_percent, format_seconds


def measurements_parts(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return what is shown of a `netpipe.measurements/1` document: all, then each."""
    measurements = document["measurements"]
    each = tuple(measurement_part(one) for one in measurements)
    return (_overview(measurements), *each) if len(each) > 1 else each


def headroom_drawing(headrooms: Mapping[str, Interval]) -> Drawing:
    """Draw the headroom of each accelerator, one at least, by its name."""
    rows = [Row(name, one, *_look(one.median)) for name, one in headrooms.items()]
    return Drawing(
        "Headroom of each accelerator",
        factors(rows, Line(1.0, "keeps up")),
        "Step time over load time. Right of the line (●) the loader is fast enough, left of it (✖) "
        "the accelerator waits.",
    )


def _look(headroom: float) -> tuple[Ink, str]:
    return (Ink.GOOD, "o") if headroom >= 1 else (Ink.BAD, "X")


def _overview(measurements: Sequence[Mapping[str, Any]]) -> Part:
    return Part(
        "Side by side",
        _headline(measurements),
        cards=(Pair(headroom_drawing(_headrooms(measurements)), _table(measurements)),),
    )


def _headrooms(measurements: Sequence[Mapping[str, Any]]) -> dict[str, Interval]:
    return {
        device_of(one): converter().structure(one["headroom"], Interval) for one in measurements
    }


def _headline(measurements: Sequence[Mapping[str, Any]]) -> Headline:
    fed = [one for one in measurements if tone_of(one) in (Tone.GOOD, Tone.WARN)]
    tone = tones.worst([tone_of(one) for one in measurements])
    word = f"{len(fed)} of {len(measurements)} fed"
    return Headline(tone, word, "; ".join(_told(one) for one in measurements) + ".")


def _told(document: Mapping[str, Any]) -> str:
    return f"{device_of(document)}: {document['verdict']['kind']}"


def _table(measurements: Sequence[Mapping[str, Any]]) -> Table:
    columns = ("accelerator", "verdict", "load L", "step S0", "real step R", "headroom", "stall",
               "workers needed")  # fmt: skip
    return Table(
        "One loader, several accelerators",
        "Medians. A step time marked derived comes from FLOPs and a peak, not from a run.",
        tuple(Column(name, is_figure=number > 1) for number, name in enumerate(columns)),
        tuple(_row(one) for one in measurements),
    )


def _row(document: Mapping[str, Any]) -> tuple[Cell, ...]:
    times = ("load_s_per_batch", "step_s", "train_s_per_step")
    return (
        Cell(device_of(document)),
        Cell(sentence(document["verdict"]["kind"]), tone_of(document)),
        *(Cell(format_seconds(document[name]["median"])) for name in times),
        Cell(ratio(document["headroom"]["median"])),
        Cell(format_percent(document["stall_fraction"]["median"])),
        Cell(str(document.get("workers_needed") or "")),
    )
