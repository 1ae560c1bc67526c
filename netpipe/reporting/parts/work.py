"""The part of a work document: exact counts of the work for a batch."""

from collections.abc import Mapping, Sequence
from typing import Any

from netpipe.reporting.content import Card, Headline, Notes, Part
from netpipe.reporting.tones import Tone, pick_tone, pick_worst
from netpipe.reporting.work_table import work_notes, work_table
from netpipe.results.fields import parse
from netpipe.results.work_profile import WorkProfile


def build_work_part(document: Mapping[str, Any]) -> Part:
    """Return the part of a `netpipe.work/1` document, or of the work that a test counted."""
    profile = parse(document, WorkProfile, "work")
    table, notes = work_table(profile), work_notes(profile)
    cards: list[Card] = [table] if table.rows else []
    if notes:
        cards.append(Notes("Arrays, and dropped counts", notes))
    title = f"Work {document.get('test', '')}".strip()
    return Part(title, _build_headline(document.get("comparisons", [])), cards=cards)


def _build_headline(comparisons: Sequence[Mapping[str, Any]]) -> Headline:
    tones = {each["reason"]: pick_tone(each) for each in comparisons}
    if not tones:
        return Headline(Tone.PLAIN, "Counted", "It was not compared.")
    worst = pick_worst(list(tones.values()))
    words = {Tone.BAD: "More work", Tone.OPEN: "Undecided", Tone.WARN: "More work, waived"}
    word = words.get(worst, "No more work")
    return Headline(worst, word, "; ".join(said for said, tone in tones.items() if tone is worst))
