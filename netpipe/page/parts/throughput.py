"""How fast a loader is when nothing waits for it."""

from collections.abc import Mapping
from typing import Any

from netpipe.page.content import Cell, Drawing, Fact, Headline, Part, Table, Tone, head_columns
from netpipe.page.formatting import (
    format_bounds,
    format_short_count,
    format_size,
    format_whole_percent,
)
from netpipe.page.parts.environment import build_environment_cards
from netpipe.page.plots.ranges import Row, draw_amounts
from netpipe.results.measurement import Interval, converter
from netpipe.results.units import format_number


def build_throughput_part(document: Mapping[str, Any]) -> Part:
    """Return the part of a `netpipe.throughput/1` document."""
    best = next(one for one in document["combinations"] if one["best"])
    tokens_per_s = _parse_tokens_per_s(best)
    headline = Headline(
        Tone.PLAIN,
        f"{format_short_count(tokens_per_s.median)} tokens/s",
        f"The most, with {_name(best)}: {format_bounds(tokens_per_s, format_short_count)}.",
    )
    facts = (
        Fact("runs of each", str(document["rounds"]), f"{document['seconds']:g} s, in turns"),
        Fact("data", document["data"]),
    )
    loaders = {_name(one): one for one in document["combinations"]}
    if other := document["against"]:
        loaders[other["target"]] = other
    environment = build_environment_cards(
        document["host"], document["versions"], document["device"]
    )
    cards = (_draw(loaders), _build_table(loaders), *environment)
    return Part("Loader speed", headline, facts, cards)


def _parse_tokens_per_s(combination: Mapping[str, Any]) -> Interval:
    return converter().structure(combination["tokens_per_s"], Interval)


def _name(combination: Mapping[str, Any]) -> str:
    return f"batches of {combination['batch_size']}, {combination['workers']} workers"


def _draw(loaders: Mapping[str, Mapping[str, Any]]) -> Drawing:
    rows = [Row(name, _parse_tokens_per_s(one)) for name, one in loaders.items()]
    return Drawing(
        "Tokens per second",
        draw_amounts(rows, write=format_short_count),
        "Real tokens, padding not counted, with 95% intervals over the runs. Longer is better.",
    )


def _build_table(loaders: Mapping[str, Mapping[str, Any]]) -> Table:
    figures = ("tokens/s", "tokens/CPU s", "batches/s", "padding", "bytes/token", "memory")
    return Table(
        "Every combination",
        "Medians over the runs.",
        head_columns("loader", figures=figures),
        tuple(_build_row(name, one) for name, one in loaders.items()),
        is_wide=True,
    )


def _build_row(name: str, combination: Mapping[str, Any]) -> tuple[Cell, ...]:
    formats = {
        "tokens_per_s": format_short_count,
        "tokens_per_cpu_s": format_short_count,
        "batches_per_s": format_short_count,
        "padding_fraction": format_whole_percent,
        "bytes_read_per_token": format_number,
        "peak_pss_bytes": format_size,
    }
    figures = (Cell(write(combination[key]["median"])) for key, write in formats.items())
    return (Cell(name), *figures)
