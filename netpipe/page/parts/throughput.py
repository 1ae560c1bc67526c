"""How fast a loader is when nothing waits for it."""

from collections.abc import Mapping
from typing import Any, Final

from netpipe.page.content import Cell, Drawing, Fact, Figure, Headline, Part, Table
from netpipe.page.formatting import format_bounds, format_size
from netpipe.page.parts.measurement import build_environment_cards
from netpipe.page.plots.rows import Row, draw_amounts
from netpipe.page.tones import Tone
from netpipe.results.measurement import Interval, converter
from netpipe.results.units import format_amount, format_number

_FIGURES: Final = (
    ("tokens/s", "tokens_per_s", format_amount),
    ("tokens/CPU s", "tokens_per_cpu_s", format_amount),
    ("batches/s", "batches_per_s", format_amount),
    ("padding", "padding_fraction", "{:.0%}".format),
    ("bytes/token", "bytes_read_per_token", format_number),
    ("memory", "peak_pss_bytes", format_size),
)


def build_throughput_part(document: Mapping[str, Any]) -> Part:
    """Return the part of a `netpipe.throughput/1` document."""
    best = next(loader for loader in document["combinations"] if loader["best"])
    loaders = {_describe(loader): loader for loader in document["combinations"]}
    if other := document["against"]:
        loaders[other["target"]] = other
    speeds = {
        name: converter().structure(loader["tokens_per_s"], Interval)
        for name, loader in loaders.items()
    }
    most = speeds[_describe(best)]
    headline = Headline(
        Tone.PLAIN,
        f"{format_amount(most.median)} tokens/s",
        f"The most, with {_describe(best)}: {format_bounds(most, format_amount)}.",
    )
    facts = [
        Fact("runs of each", str(document["rounds"]), f"{document['seconds']:g} s, in turns"),
        Fact("data", document["data"]),
    ]
    drawing = Drawing(
        "Tokens per second",
        draw_amounts([Row(*speed) for speed in speeds.items()], write=format_amount),
        "Real tokens, padding not counted, with 95% intervals over the runs. Longer is better.",
    )
    table = Table(
        "Every combination",
        "Medians over the runs.",
        [
            {"loader": Cell(name)}
            | {label: Figure(write(loader[key]["median"])) for label, key, write in _FIGURES}
            for name, loader in loaders.items()
        ],
        is_wide=True,
    )
    cards = [drawing, table, *build_environment_cards(document)]
    return Part("Loader speed", headline, facts, cards)


def _describe(combination: Mapping[str, Any]) -> str:
    return f"batches of {combination['batch_size']}, {combination['workers']} workers"
