"""A run of the suite: what it compared, and what it measured and read."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from netpipe.page import tones
from netpipe.page.content import Fact, Headline, Part, Tone
from netpipe.page.parts.gate import build_gate_cards, pick_tone
from netpipe.page.parts.lint import build_lint_part
from netpipe.page.parts.measurement import build_measurement_part


def build_run_parts(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return what is shown of a `netpipe.run/1` document: the gate, then all that it rests on."""
    measured = [build_measurement_part(one) for one in _latest(document["measurements"])]
    linted = [build_lint_part(one) for one in document["lints"]]
    return (_gate(document, [*measured, *linted]), *measured, *linted)


def _latest(measurements: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Give the last session of each device and each data."""
    last = {(one["device"]["key"], one["fingerprint"]): one for one in measurements}
    yield from last.values()


def _gate(document: Mapping[str, Any], others: Sequence[Part]) -> Part:
    commit = document["accepted"]["commit"]
    against = document["against"]
    facts = (
        Fact("sessions", str(len(document["measurements"])), "each a fresh process"),
        *((Fact("baselines of", commit[:12]),) if commit else ()),
        *((Fact("against", against["ref"], against["commit"][:12]),) if against else ()),
    )
    headline = _headline(document["comparisons"], others)
    return Part("The run", headline, facts, tuple(build_gate_cards(document)))


def _headline(compared: Sequence[Mapping[str, Any]], others: Sequence[Part]) -> Headline:
    """Tell the worst: of the comparisons, or of what was measured and read."""
    beside = [one for one in others if one.headline.tone is Tone.BAD]
    told = " ".join(f"{one.title}: {one.headline.word}." for one in beside)
    tone = tones.pick_worst([*map(pick_tone, compared), *(one.headline.tone for one in others)])
    if not compared:
        return Headline(tone, "Compared with nothing", told or _next(others))
    worst = min(compared, key=lambda one: tones.WORST_FIRST.index(pick_tone(one)))
    alike = sum(one["outcome"] == worst["outcome"] for one in compared)
    word = f"{alike} of {len(compared)} {worst['outcome'].replace('_', ' ')}"
    if worst["outcome"] in ("PASS", "IMPROVED"):
        return Headline(tone, word, f"No metric is worse than it may be. {told}")
    return Headline(tone, word, f"{worst['reason']}. {told}")


def _next(others: Sequence[Part]) -> str:
    return "" if others else "Nothing was measured."
