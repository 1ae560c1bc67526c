"""How outcomes are taken, and how that is told to those who see no colours."""

from collections.abc import Mapping
from typing import Final

from netpipe.page.content import Tone

SIGNS: Final[Mapping[Tone, str]] = {
    Tone.GOOD: "✓",
    Tone.WARN: "!",
    Tone.BAD: "✗",
    Tone.OPEN: "?",
    Tone.PLAIN: "",
}

OF_OUTCOME: Final[Mapping[str, Tone]] = {
    "PASS": Tone.GOOD,
    "IMPROVED": Tone.GOOD,
    "REGRESSED": Tone.BAD,
    "INCONCLUSIVE": Tone.OPEN,
    "NOT_COMPARED": Tone.OPEN,
    "NO_BASELINE": Tone.OPEN,
}

OF_SEVERITY: Final[Mapping[str, Tone]] = {
    "error": Tone.BAD,
    "warning": Tone.WARN,
    "info": Tone.PLAIN,
}

WORST_FIRST: Final = (Tone.BAD, Tone.OPEN, Tone.WARN, Tone.GOOD, Tone.PLAIN)


def of_verdict(kind: str, *, passes: bool) -> Tone:
    """Return how a verdict is taken; one that does not fail may still be no good news."""
    if kind == "healthy":
        return Tone.GOOD
    if kind == "inconclusive":
        return Tone.OPEN
    return Tone.WARN if passes else Tone.BAD


def worst(tones: list[Tone]) -> Tone:
    """Return the worst of some tones; plain without any."""
    return min(tones, key=WORST_FIRST.index, default=Tone.PLAIN)
