"""The tone of each outcome, severity and verdict, with a sign for readers without colours."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

from netpipe.verdict.kinds import VerdictKind


class Tone(StrEnum):
    """The tone of a result, worst first; shown as a colour, a sign and a word."""

    BAD = "bad"
    OPEN = "open"
    WARN = "warn"
    GOOD = "good"
    PLAIN = "plain"

    @property
    def sign(self) -> str:
        """The sign before text in this tone; "" for plain."""
        return {"bad": "✗", "open": "?", "warn": "!", "good": "✓", "plain": ""}[self]


_BY_OUTCOME: Final = dict.fromkeys(("INCONCLUSIVE", "NOT_COMPARED", "NO_BASELINE"), Tone.OPEN) | {
    "PASS": Tone.GOOD,
    "IMPROVED": Tone.GOOD,
    "REGRESSED": Tone.BAD,
}

BY_SEVERITY: Final = {"error": Tone.BAD, "warning": Tone.WARN, "info": Tone.PLAIN}

BY_VERDICT: Final = dict.fromkeys(VerdictKind, Tone.BAD) | {
    VerdictKind.HEALTHY: Tone.GOOD,
    VerdictKind.AT_RISK: Tone.WARN,
    VerdictKind.INCONCLUSIVE: Tone.OPEN,
}


def pick_tone(comparison: Mapping[str, Any]) -> Tone:
    """Return a comparison's tone; a waived regression or a reported-only metric is never BAD."""
    if comparison.get("waiver") and comparison["outcome"] == "REGRESSED":
        return Tone.WARN
    if comparison.get("is_reported_only"):
        return Tone.PLAIN
    return _BY_OUTCOME[comparison["outcome"]]


def pick_worst(tones: list[Tone]) -> Tone:
    """Return the worst tone; plain if there is none."""
    return min(tones, key=list(Tone).index, default=Tone.PLAIN)
