"""The comparisons of a run, metric by metric, with the history of each."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from netpipe.page import tones
from netpipe.page.content import Card, Cell, Column, Note, Notes, Table, Tone, head_columns
from netpipe.page.formatting import format_ratio
from netpipe.page.plots.sparkline import draw_sparkline
from netpipe.results.units import format_metric, format_seconds

_HISTORY_CAPTION = (
    " The history shows the medians of the device's baselines, the oldest first, and last the "
    "value of this run."
)


def build_gate_cards(document: Mapping[str, Any]) -> Iterator[Card]:
    """Yield the comparisons and the accepted changes of a `netpipe.run/1` document."""
    comparisons: Sequence[Mapping[str, Any]] = document["comparisons"]
    for against in dict.fromkeys(one["against"] for one in comparisons):
        yield _build_table([one for one in comparisons if one["against"] == against], against)
    yield from _build_reasons(comparisons)
    if rows := tuple(_build_change_rows(document["accepted"]["baseline_changes"])):
        yield Table(
            "Baselines that this change replaces",
            "How the working tree differs from the commit that was compared with.",
            head_columns("file", "figure", figures=("before", "after")),
            rows,
        )
    if waivers := document["accepted"]["waivers"]:
        yield Notes("Accepted slowdowns", tuple(map(_build_waiver, waivers)))


def pick_tone(comparison: Mapping[str, Any]) -> Tone:
    """Return a comparison's tone; a waived or only reported metric fails nothing."""
    if comparison["waiver"] and comparison["outcome"] == "REGRESSED":
        return Tone.WARN
    if comparison.get("is_reported_only"):
        return Tone.PLAIN
    return tones.BY_OUTCOME[comparison["outcome"]]


def _build_table(comparisons: Sequence[Mapping[str, Any]], against: str | None) -> Table:
    has_history = any(one.get("history") for one in comparisons)
    columns = head_columns("metric", "outcome", figures=("times worse", "now", "before"))
    return Table(
        f"Against {against or 'the baseline'}",
        "Medians over sessions. Above 1 is worse, whatever the metric's direction."
        f"{_HISTORY_CAPTION if has_history else ''}",
        (*columns, *((Column("history"),) if has_history else ())),
        tuple(tuple(_build_cells(one, has_history=has_history)) for one in comparisons),
        is_wide=True,
    )


def _build_cells(one: Mapping[str, Any], *, has_history: bool) -> Iterator[Cell]:
    metric = one["metric"] or one["quantity"]
    waived = f"waived: {one['waiver']['reason']}" if one["waiver"] else ""
    yield Cell(metric, note=one["benchmark"].rpartition("::")[2], is_code=True)
    yield Cell(one["outcome"].replace("_", " "), pick_tone(one), waived)
    yield Cell("" if one["worse_ratio"] is None else f"{format_ratio(one['worse_ratio'])} x")
    yield Cell(format_metric(metric, one["now"]))
    yield Cell("none" if one["baseline"] is None else format_metric(metric, one["baseline"]))
    if has_history:
        yield _build_history(one, metric)


def _build_history(one: Mapping[str, Any], metric: str) -> Cell:
    history = one.get("history")
    if not history:
        return Cell("")
    values = [f"{past['baseline'][:4]} {format_metric(metric, past['value'])}" for past in history]
    svg = draw_sparkline([past["value"] for past in history], one["now"], pick_tone(one))
    return Cell(f"{', '.join(values)}, now {format_metric(metric, one['now'])}", svg=svg)


def _build_reasons(comparisons: Sequence[Mapping[str, Any]]) -> Iterator[Notes]:
    notes = dict.fromkeys(
        Note(one["outcome"].replace("_", " "), one["reason"], pick_tone(one))
        for one in comparisons
        if one["outcome"] != "PASS"
    )
    if notes:
        yield Notes("Why", tuple(notes))


def _build_change_rows(changes: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Cell, ...]]:
    for change in changes:
        file = Cell(change["file"], note=change["change"], is_code=True)
        for name, figure in (change["figures"] or {"": {}}).items():
            values = (_format_figure(name, figure.get(key)) for key in ("before", "after"))
            yield (file, Cell(name, is_code=True), *map(Cell, values))


def _format_figure(name: str, value: float | None) -> str:
    if value is None:
        return ""
    is_duration = name.partition("_per_")[0].endswith("_s")
    return format_seconds(value) if is_duration else format_ratio(value)


def _build_waiver(waiver: Mapping[str, Any]) -> Note:
    return Note(
        f"{waiver['benchmark']}, {waiver['metric']}",
        f"up to {waiver['bound']:g} x until {waiver['expires']}: {waiver['reason']}",
        more=(("New", "added by this change"),) if waiver["is_added"] else (),
    )
