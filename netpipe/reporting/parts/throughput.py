"""The part of a throughput document: the speed of loaders without a step."""

from collections.abc import Mapping
from typing import Any, Final

from netpipe.reporting.content import Drawing, Fact, Headline, Part
from netpipe.reporting.parts.measurement import build_environment_cards
from netpipe.reporting.plots.rows import Row, draw_amounts
from netpipe.reporting.tables import Cell, Figure, Table
from netpipe.reporting.tones import Tone
from netpipe.results.fields import converter
from netpipe.results.measurement import Interval
from netpipe.results.units import format_amount, format_bounds, format_bytes, format_number

_FIGURES: Final = (
    ("tokens/s", "tokens_per_s", format_amount),
    ("tokens/CPU s", "tokens_per_cpu_s", format_amount),
    ("batches/s", "batches_per_s", format_amount),
    ("padding", "padding_fraction", "{:.0%}".format),
    ("bytes/token", "bytes_read_per_token", format_number),
    ("memory", "peak_pss_bytes", format_bytes),
)


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
    rows = []
    for name, loader in loaders.items():
        row = {label: Figure(write(loader[key]["median"])) for label, key, write in _FIGURES}
        rows.append({"loader": Cell(name), **row})
    return Table("Every combination", "Medians over the runs.", rows, is_wide=True)


def _describe(combination: Mapping[str, Any]) -> str:
    own = combination.get("loader") or f"batches of {combination['batch_size']}"
    workers = combination["workers"]
    return own if workers is None else f"{own}, {workers} workers"
