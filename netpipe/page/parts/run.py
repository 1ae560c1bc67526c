"""Builds the parts of a suite run: its comparisons, measurements and lints."""

from collections.abc import Mapping, Sequence
from typing import Any

from netpipe.page import tones
from netpipe.page.content import Fact, Headline, Part, Tone
from netpipe.page.parts.gate import build_gate_cards, pick_tone
from netpipe.page.parts.lint import build_lint_part
from netpipe.page.parts.measurement import build_measurement_part


def build_run_parts(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of a `netpipe.run/1` document: the gate, then its measurements and lints."""
    # Of several sessions with the same device and data, show only the last.
    last_sessions = {
        (session["device"]["key"], session["fingerprint"]): session
        for session in document["measurements"]
    }
    measured = map(build_measurement_part, last_sessions.values())
    results = (*measured, *map(build_lint_part, document["lints"]))
    return (_build_gate(document, results), *results)


def _build_gate(document: Mapping[str, Any], results: Sequence[Part]) -> Part:
    commit = document["accepted"]["commit"]
    against = document["against"]
    facts = (
        Fact("sessions", str(len(document["measurements"])), "each a fresh process"),
        *((Fact("baselines of", commit[:12]),) if commit else ()),
        *((Fact("against", against["ref"], against["commit"][:12]),) if against else ()),
    )
    headline = _build_headline(document["comparisons"], results)
    return Part("The run", headline, facts, tuple(build_gate_cards(document)))


def _build_headline(comparisons: Sequence[Mapping[str, Any]], results: Sequence[Part]) -> Headline:
    """Return a headline that names the worst comparison, in the worst tone of all parts."""
    bad = [part for part in results if part.headline.tone is Tone.BAD]
    summary = " ".join(f"{part.title}: {part.headline.word}." for part in bad)
    tone = tones.pick_worst(
        [*map(pick_tone, comparisons), *(part.headline.tone for part in results)]
    )
    if not comparisons:
        fallback = "" if results else "Nothing was measured."
        return Headline(tone, "Nothing was compared", summary or fallback)
    worst = min(comparisons, key=lambda row: tones.WORST_FIRST.index(pick_tone(row)))
    same_outcome = sum(row["outcome"] == worst["outcome"] for row in comparisons)
    word = f"{same_outcome} of {len(comparisons)} {worst['outcome'].replace('_', ' ')}"
    if worst["outcome"] in ("PASS", "IMPROVED"):
        return Headline(tone, word, f"Every metric is within its bound. {summary}")
    return Headline(tone, word, f"{worst['reason']}. {summary}")
