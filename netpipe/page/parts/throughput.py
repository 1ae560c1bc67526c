"""How fast a loader goes when nothing waits for it."""

from collections.abc import Mapping
from typing import Any

from netpipe.page.content import Cell, Column, Drawing, Fact, Headline, Part, Table, Tone
from netpipe.page.parts.environment import surroundings
from netpipe.page.plots.ranges import Row, amounts
from netpipe.page.wording import bounds, short_count, size, whole_percent
from netpipe.results.measurement import Interval, converter
from netpipe.results.units import format_number


def throughput_part(document: Mapping[str, Any]) -> Part:
    """Return what is shown of a `netpipe.throughput/1` document."""
    best = next(one for one in document["combinations"] if one["best"])
    tokens_per_s = _interval(best, "tokens_per_s")
    headline = Headline(
        Tone.PLAIN,
        f"{short_count(tokens_per_s.median)} tokens/s",
        f"The most, with {_name(best)}: {bounds(tokens_per_s, short_count)}.",
    )
    facts = (
        Fact("runs of each", str(document["rounds"]), f"{document['seconds']:g} s, in turns"),
        Fact("data", document["data"]),
    )
    around = surroundings(document["host"], document["versions"], document["device"])
    return Part("Loader speed", headline, facts, (_drawing(document), _table(document), *around))


def _interval(combination: Mapping[str, Any], name: str) -> Interval:
    return converter().structure(combination[name], Interval)


def _name(combination: Mapping[str, Any]) -> str:
    return f"batches of {combination['batch_size']}, {combination['workers']} workers"


def _compared(document: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    other = document["against"]
    others = {other["target"]: other} if other else {}
    return {_name(one): one for one in document["combinations"]} | others


def _drawing(document: Mapping[str, Any]) -> Drawing:
    rows = [Row(name, _interval(one, "tokens_per_s")) for name, one in _compared(document).items()]
    return Drawing(
        "Tokens per second",
        amounts(rows),
        "Real tokens, padding not counted, with 95% intervals over the runs. Longer is better.",
    )


def _table(document: Mapping[str, Any]) -> Table:
    names = ("tokens/s", "tokens/CPU s", "batches/s", "padding", "bytes/token", "memory")
    return Table(
        "Every combination",
        "Medians over the runs.",
        (Column("loader"), *(Column(name, is_figure=True) for name in names)),
        tuple(_row(name, one) for name, one in _compared(document).items()),
        is_wide=True,
    )


def _row(name: str, one: Mapping[str, Any]) -> tuple[Cell, ...]:
    median = {figure: one[figure]["median"] for figure in one if isinstance(one[figure], dict)
              and "median" in one[figure]}  # fmt: skip
    return (
        Cell(name),
        Cell(short_count(median["tokens_per_s"])),
        Cell(short_count(median["tokens_per_cpu_s"])),
        Cell(short_count(median["batches_per_s"])),
        Cell(whole_percent(median["padding_fraction"])),
        Cell(format_number(median["bytes_read_per_token"])),
        Cell(size(median["peak_pss_bytes"])),
    )
