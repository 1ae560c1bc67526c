"""The part of a throughput document: the speed of loaders without a step."""

from collections.abc import Mapping, Sequence
from typing import Any

from netpipe.measuring.training.token_counts import BY_ELEMENTS
from netpipe.reporting.content import Drawing, Fact, Headline, Part
from netpipe.reporting.parts.measurement import build_environment_cards
from netpipe.reporting.plots.rows import Row, draw_amounts
from netpipe.reporting.tables import Cell, Figure, Table
from netpipe.reporting.throughput_table import EXAMPLE_COLUMNS, TOKEN_COLUMNS, Columns
from netpipe.reporting.tones import Tone
from netpipe.results.fields import converter
from netpipe.results.measurement import Interval
from netpipe.results.units import format_amount, format_bounds, format_count


def build_throughput_part(document: Mapping[str, Any]) -> Part:
    """Return the part of a `netpipe.throughput/1` document."""
    loaders = {_describe(loader): loader for loader in document["combinations"]}
    best = next(_describe(loader) for loader in document["combinations"] if loader["best"])
    if other := document["against"]:
        loaders[f"other: {other['target']}"] = other
    columns = _choose_columns(document["combinations"])
    (heading, (speed, _)), *_ = columns.items()
    speeds = {name: converter().structure(each[speed], Interval) for name, each in loaders.items()}
    most = speeds[best]
    headline = Headline(
        Tone.PLAIN,
        f"{format_amount(most.median)} {heading}",
        f"The most, with {best}: {format_bounds(most, format_amount)}.",
    )
    facts = [
        Fact("runs of each", str(document["rounds"]), f"{document['seconds']:g} s, in turns"),
        Fact("data", document["data"] or "the loader's own"),
    ]
    counted = "Real tokens, padding not counted, with" if columns is TOKEN_COLUMNS else "With"
    drawing = Drawing(
        heading.capitalize(),
        draw_amounts([Row(*row) for row in speeds.items()], write=format_amount),
        f"{counted} 95% intervals over the runs. Longer is better.",
    )
    cards = [drawing, _build_table(loaders, columns), *build_environment_cards(document)]
    return Part("Loader speed", headline, facts, cards)


def _choose_columns(combinations: Sequence[Mapping[str, Any]]) -> Columns:
    """Return the columns of examples if no batch marks padding, as the terminal does."""
    are_examples = (
        each["counted_by"] == BY_ELEMENTS and "examples_per_s" in each for each in combinations
    )
    return EXAMPLE_COLUMNS if all(are_examples) else TOKEN_COLUMNS


def _build_table(loaders: Mapping[str, Any], columns: Columns) -> Table:
    rows: list[dict[str, Cell]] = [{"loader": Cell(name)} for name in loaders]
    for row, loader in zip(rows, loaders.values(), strict=True):
        for heading, (figure, write) in columns.items():
            row[heading] = Figure(write(loader[figure]["median"]))
    return Table("Every combination", "Medians over the runs.", rows, is_wide=True)


def _describe(combination: Mapping[str, Any]) -> str:
    own = combination.get("loader") or f"batches of {combination['batch_size']}"
    workers = combination["workers"]
    return own if workers is None else f"{own}, {format_count(workers, 'worker')}"
