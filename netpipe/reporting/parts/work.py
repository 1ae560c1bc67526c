"""Exact counts of the work for a batch."""

from collections.abc import Mapping, Sequence
from typing import Any

from netpipe.reporting.content import Card, Headline, Note, Notes, Part
from netpipe.reporting.tables import Cell, Figure, Table
from netpipe.reporting.tones import BY_OUTCOME, Tone, pick_worst
from netpipe.results.work_profile import KINDS, parse_work_profile


def build_work_part(document: Mapping[str, Any]) -> Part:
    """Return the part of a `netpipe.work/1` document."""
    profile = parse_work_profile(document)
    rows = [
        {"kind": Cell(name), "part": Cell(part), "per batch": Figure(KINDS[name].format(count))}
        for name in profile.counts
        for part, count in profile.largest_parts(name)
    ]
    caption = (
        f"Means over {profile.batches} batches; the largest parts of each kind. Counts are the "
        "same on a busy machine and on other machines."
    )
    notes = [Note(name, shape) for name, shape in profile.arrays.items()]
    notes += [Note(name, f"not counted: {why}") for name, why in profile.not_counted.items()]
    notes += [
        Note(name, f"differs between two processes, dropped: {', '.join(dropped)}")
        for name, dropped in profile.dropped.items()
    ]
    cards: list[Card] = [Table("Work per batch", caption, rows)] if rows else []
    if notes:
        cards.append(Notes("Arrays, and dropped counts", notes))
    return Part("Work", _build_headline(document.get("comparisons", [])), cards=cards)


def _build_headline(comparisons: Sequence[Mapping[str, Any]]) -> Headline:
    tones = {each["reason"]: BY_OUTCOME[each["outcome"]] for each in comparisons}
    if not tones:
        return Headline(Tone.PLAIN, "Counted", "It was not compared.")
    worst = pick_worst(list(tones.values()))
    word = {Tone.BAD: "More work", Tone.OPEN: "Not compared"}.get(worst, "No more work")
    return Headline(worst, word, "; ".join(said for said, tone in tones.items() if tone is worst))
