"""The part of a throughput document: the speed of loaders without a step."""

from collections.abc import Mapping
from typing import Any

from netpipe.reporting.content import Drawing, Fact, Headline, Part
from netpipe.reporting.parts.measurement import build_environment_cards
from netpipe.reporting.plots.rows import Row, draw_amounts
from netpipe.reporting.tables import Cell, Figure, Table
from netpipe.reporting.throughput_table import TOKEN_COLUMNS
from netpipe.reporting.tones import Tone
from netpipe.results.fields import converter
from netpipe.results.measurement import Interval
from netpipe.results.units import format_amount, format_bounds


def build_throughput_part(document: Mapping[str, Any]) -> Part:
    """Return the part of a `netpipe.throughput/1` document."""
    loaders = {_describe(loader): loader for loader in document["combinations"]}
    best = next(_describe(loader) for loader in document["combinations"] if loader["best"])
    if other := document["against"]:
        loaders[other["target"]] = other
    most = converter().structure(loaders[best]["tokens_per_s"], Interval)
    headline = Headline(
        Tone.PLAIN,
        f"{format_amount(most.median)} tokens/s",
        f"The most, with {best}: {format_bounds(most, format_amount)}.",
    )
    facts = [
        Fact("runs of each", str(document["rounds"]), f"{document['seconds']:g} s, in turns"),
        Fact("data", document["data"] or "the loader's own"),
    ]
    cards = [_draw_speeds(loaders), _build_table(loaders), *build_environment_cards(document)]
    return Part("Loader speed", headline, facts, cards)


def _draw_speeds(loaders: Mapping[str, Any]) -> Drawing:
    rows = [
        Row(name, converter().structure(loader["tokens_per_s"], Interval))
        for name, loader in loaders.items()
    ]
    return Drawing(
        "Tokens per second",
        draw_amounts(rows, write=format_amount),
        "Real tokens, padding not counted, with 95% intervals over the runs. Longer is better.",
    )


def _build_table(loaders: Mapping[str, Any]) -> Table:
    rows: list[dict[str, Cell]] = [{"loader": Cell(name)} for name in loaders]
    for row, loader in zip(rows, loaders.values(), strict=True):
        for heading, (figure, write) in TOKEN_COLUMNS.items():
            row[heading] = Figure(write(loader[figure]["median"]))
    return Table("Every combination", "Medians over the runs.", rows, is_wide=True)


def _describe(combination: Mapping[str, Any]) -> str:
    own = combination.get("loader") or f"batches of {combination['batch_size']}"
    workers = combination["workers"]
    return own if workers is None else f"{own}, {workers} workers"
