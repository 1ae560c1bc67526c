"""The parts of a run: comparisons, measurements, counts of work and lints."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from netpipe.gate.metrics import format_worse_ratio
from netpipe.reporting.content import Card, Fact, Headline, Note, Notes, Part
from netpipe.reporting.parts.lint import build_lint_part
from netpipe.reporting.parts.measurement import build_measurement_part
from netpipe.reporting.parts.work import build_work_part
from netpipe.reporting.tables import Cell, Figure, Table
from netpipe.reporting.tones import Tone, pick_tone, pick_worst
from netpipe.results.units import format_metric

Comparison = Mapping[str, Any]


def build_run_parts(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of a `netpipe.run/1` document: the gate, then the results."""
    # Show only the first session for each device, data set and test: its verdict was confirmed.
    first_sessions: dict[tuple[str, str, str | None], Mapping[str, Any]] = {}
    for session in document["measurements"]:
        key = session["device"]["key"], session["fingerprint"], session.get("test")
        first_sessions.setdefault(key, session)
    measured = map(build_measurement_part, first_sessions.values())
    counted = [
        build_work_part({**work, "comparisons": _find_comparisons(document, work.get("test", ""))})
        for work in document.get("work", ())
    ]
    results = (*measured, *counted, *map(build_lint_part, document["lints"]))
    facts = [Fact("sessions", str(len(document["measurements"])), "each a fresh process")]
    if commit := document["accepted"]["commit"]:
        facts.append(Fact("baselines of", commit[:12]))
    if against := document["against"]:
        facts.append(Fact("against", against["ref"], against["commit"][:12]))
    headline = _build_headline(document["comparisons"], results)
    gate = Part("The run", headline, facts, list(_build_cards(document)))
    return (gate, *results)


def _find_comparisons(document: Mapping[str, Any], test: str) -> list[Comparison]:
    """Return the comparisons of the work that a test counted."""
    found: Sequence[Comparison] = document["comparisons"]
    return [each for each in found if (each["benchmark"], each["quantity"]) == (test, "work")]


def _build_headline(comparisons: Sequence[Comparison], results: Sequence[Part]) -> Headline:
    """Return a headline that names the worst comparison, in the worst tone of all parts."""
    bad = [part for part in results if part.headline.tone is Tone.BAD]
    summary = " ".join(f"{part.title}: {part.headline.word}." for part in bad)
    compared = list(map(pick_tone, comparisons))
    tone = pick_worst([*compared, *(part.headline.tone for part in results)])
    if not comparisons:
        fallback = "" if results else "Nothing was measured."
        return Headline(tone, "Nothing was compared", summary or fallback)
    worst = comparisons[compared.index(pick_worst(compared))]
    alike = [
        row["outcome"] == worst["outcome"] and pick_tone(row) is pick_tone(worst)
        for row in comparisons
    ]
    word = f"{sum(alike)} of {len(comparisons)} {_format_outcome(worst)}"
    if worst["outcome"] in ("PASS", "IMPROVED"):
        return Headline(tone, word, f"Every metric is within its bound. {summary}")
    return Headline(tone, word, f"{worst['reason']}. {summary}")


def _format_outcome(comparison: Comparison) -> str:
    return str(comparison["outcome"]).replace("_", " ")


def _build_cards(document: Mapping[str, Any]) -> Iterator[Card]:
    comparisons: Sequence[Comparison] = document["comparisons"]
    for against in dict.fromkeys(row["against"] for row in comparisons):
        yield _build_table([row for row in comparisons if row["against"] == against], against)
    reasons = dict.fromkeys(
        Note(_format_outcome(row), row["reason"], pick_tone(row))
        for row in comparisons
        if row["outcome"] != "PASS"
    )
    if reasons:
        yield Notes("Why", list(reasons))
    if rows := list(_build_change_rows(document["accepted"]["baseline_changes"])):
        yield Table(
            "Baselines that this change replaces",
            "How the working tree differs from the commit of the baselines.",
            rows,
        )
    if waivers := document["accepted"]["waivers"]:
        yield Notes("Accepted slowdowns", list(map(_describe_waiver, waivers)))


def _describe_waiver(waiver: Mapping[str, Any]) -> Note:
    return Note(
        f"{waiver['benchmark']}, {waiver['metric']}",
        f"up to {waiver['bound']:g} x until {waiver['expires']}: {waiver['reason']}",
        more=(("New", "added by this change"),) if waiver["is_added"] else (),
    )


def _build_table(comparisons: Sequence[Comparison], against: str | None) -> Table:
    heading, rows = f"Against {against or 'the baseline'}", list(map(_build_row, comparisons))
    return Table(heading, "Medians over sessions.", rows, is_wide=True)


def _build_row(row: Comparison) -> dict[str, Cell]:
    metric, before = row["metric"] or row["quantity"], row["baseline"]
    waived = f"waived: {row['waiver']['reason']}" if row["waiver"] else ""
    change = row.get("shown_change") or format_worse_ratio(metric, row["worse_ratio"])
    return {
        "metric": Cell(metric, row["benchmark"].split("::", 1)[-1], is_code=True),
        "outcome": Cell(_format_outcome(row), waived, pick_tone(row)),
        "now / before": Figure(change),
        "now": Figure(format_metric(metric, row["now"])),
        "before": Figure("none" if before is None else format_metric(metric, before)),
    }


def _build_change_rows(changes: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Cell]]:
    for change in changes:
        file = Cell(change["file"], change["change"], is_code=True)
        for name, figure in (change["figures"] or {"": {}}).items():
            row = {"file": file, "figure": Cell(name, is_code=True)}
            for key in ("before", "after"):
                value = figure.get(key)
                row[key] = Figure("" if value is None else format_metric(name, value))
            yield row
