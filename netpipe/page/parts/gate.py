"""How a run compares with what it was held against, metric by metric, with what came before."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from netpipe.page import tones
from netpipe.page.content import Card, Cell, Column, Note, Notes, Table, Tone
from netpipe.page.plots.sparkline import sparkline
from netpipe.page.wording import ratio
from netpipe.results.units import format_metric, format_seconds

_COLUMNS: Final = (
    Column("metric"),
    Column("outcome"),
    Column("times worse", is_figure=True),
    Column("now", is_figure=True),
    Column("before", is_figure=True),
    Column("history"),
)


def gate_cards(document: Mapping[str, Any]) -> Iterator[Card]:
    """Give what is shown of the comparisons of a `netpipe.run/1` document."""
    compared: Sequence[Mapping[str, Any]] = document["comparisons"]
    for against in dict.fromkeys(one["against"] for one in compared):
        held = [one for one in compared if one["against"] == against]
        yield _table(held, against)
    yield from _reasons(compared)
    yield from _baseline_changes(document["accepted"]["baseline_changes"])
    yield from _waivers(document["accepted"]["waivers"])


def tone_of(comparison: Mapping[str, Any]) -> Tone:
    """Return how a comparison is taken; a waiver or a metric by design not judged fails nothing."""
    if comparison["waiver"] and comparison["outcome"] == "REGRESSED":
        return Tone.WARN
    if comparison.get("is_reported_only"):
        return Tone.PLAIN
    return tones.OF_OUTCOME[comparison["outcome"]]


def _table(compared: Sequence[Mapping[str, Any]], against: str | None) -> Table:
    has_history = any(one.get("history") for one in compared)
    columns = tuple(one for one in _COLUMNS if has_history or one.name != "history")
    history = (
        " The history shows the medians of the device's baselines, the oldest first, and last "
        "the value of now."
        if has_history
        else ""
    )
    return Table(
        f"Against {against or 'the baseline'}",
        f"Medians over sessions. Above 1 is worse, whatever the metric's direction.{history}",
        columns,
        tuple(tuple(_cells(one, has_history=has_history)) for one in compared),
        is_wide=True,
    )


def _cells(one: Mapping[str, Any], *, has_history: bool) -> Iterator[Cell]:
    metric = one["metric"] or one["quantity"]
    waived = f"waived: {one['waiver']['reason']}" if one["waiver"] else ""
    yield Cell(metric, note=one["benchmark"].rpartition("::")[2], is_code=True)
    yield Cell(_said(one["outcome"]), tone_of(one), waived)
    yield Cell("" if one["worse_ratio"] is None else f"{ratio(one['worse_ratio'])} x")
    yield Cell(format_metric(metric, one["now"]))
    yield Cell("none" if one["baseline"] is None else format_metric(metric, one["baseline"]))
    if has_history:
        yield _history(one, metric)


def _history(one: Mapping[str, Any], metric: str) -> Cell:
    history = one.get("history")
    if not history:
        return Cell("")
    told = ", ".join(
        f"{past['baseline'][:4]} {format_metric(metric, past['value'])}" for past in history
    )
    drawn = sparkline([past["value"] for past in history], one["now"], tone_of(one))
    return Cell(f"{told}, now {format_metric(metric, one['now'])}", svg=drawn)


def _said(outcome: str) -> str:
    return outcome.replace("_", " ")


def _reasons(compared: Sequence[Mapping[str, Any]]) -> Iterator[Notes]:
    told = dict.fromkeys(
        (_said(one["outcome"]), one["reason"], tone_of(one))
        for one in compared
        if one["outcome"] != "PASS"
    )
    if told:
        yield Notes("Why", tuple(Note(outcome, reason, tone) for outcome, reason, tone in told))


def _baseline_changes(changes: Sequence[Mapping[str, Any]]) -> Iterator[Table]:
    rows = tuple(
        (
            Cell(change["file"], note=change["change"], is_code=True),
            Cell(name, is_code=True),
            Cell(_figure(name, moved["before"])),
            Cell(_figure(name, moved["after"])),
        )
        for change in changes
        for name, moved in (change["figures"] or {"": {"before": None, "after": None}}).items()
    )
    if rows:
        yield Table(
            "Baselines that this change replaces",
            "What the working tree has otherwise than the commit that was compared with.",
            (Column("file"), Column("figure"), Column("before", is_figure=True),
             Column("after", is_figure=True)),
            rows,
        )  # fmt: skip


def _figure(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return format_seconds(value) if name.partition("_per_")[0].endswith("_s") else ratio(value)


def _waivers(waivers: Sequence[Mapping[str, Any]]) -> Iterator[Notes]:
    if waivers:
        notes = tuple(
            Note(
                f"{one['benchmark']}, {one['metric']}",
                f"up to {one['bound']:g} x until {one['expires']}: {one['reason']}",
                more=(("New", "added by this change"),) if one["is_added"] else (),
            )
            for one in waivers
        )
        yield Notes("Accepted slowdowns", notes)
