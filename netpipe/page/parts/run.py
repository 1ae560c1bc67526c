"""A run of the suite: its comparisons, and everything that it measured and linted."""

from collections.abc import Mapping, Sequence
from typing import Any

from netpipe.page import tones
from netpipe.page.content import Fact, Headline, Part, Tone
from netpipe.page.parts.gate import build_gate_cards, pick_tone
from netpipe.page.parts.lint import build_lint_part
from netpipe.page.parts.measurement import build_measurement_part


def build_run_parts(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of a `netpipe.run/1` document: the gate, then the results it rests on."""
    # The last session of each device and each data stands for all of them.
    last = {(one["device"]["key"], one["fingerprint"]): one for one in document["measurements"]}
    measured = map(build_measurement_part, last.values())
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
    """Name the worst comparison; the tone is the worst of comparisons and results."""
    bad = [part for part in results if part.headline.tone is Tone.BAD]
    summary = " ".join(f"{part.title}: {part.headline.word}." for part in bad)
    tone = tones.pick_worst(
        [*map(pick_tone, comparisons), *(part.headline.tone for part in results)]
    )
    if not comparisons:
        nothing = "" if results else "Nothing was measured."
        return Headline(tone, "Compared with nothing", summary or nothing)
    worst = min(comparisons, key=lambda one: tones.WORST_FIRST.index(pick_tone(one)))
    alike = sum(one["outcome"] == worst["outcome"] for one in comparisons)
    word = f"{alike} of {len(comparisons)} {worst['outcome'].replace('_', ' ')}"
    if worst["outcome"] in ("PASS", "IMPROVED"):
        return Headline(tone, word, f"No metric is worse than it may be. {summary}")
    return Headline(tone, word, f"{worst['reason']}. {summary}")
