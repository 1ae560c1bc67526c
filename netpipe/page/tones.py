"""How outcomes are taken, and how that is told to those who see no colours."""

from collections.abc import Mapping
from typing import Final

from netpipe.page.content import Tone
from netpipe.verdict.kinds import VerdictKind

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


OF_VERDICT: Final[Mapping[VerdictKind, Tone]] = {
    VerdictKind.HEALTHY: Tone.GOOD,
    VerdictKind.AT_RISK: Tone.WARN,
    VerdictKind.LOADER_BOUND: Tone.BAD,
    VerdictKind.MASKED_LOADER_BOUND: Tone.BAD,
    VerdictKind.FORCED_SYNC: Tone.BAD,
    VerdictKind.TRANSFER_BOUND: Tone.BAD,
    VerdictKind.CONTENTION: Tone.BAD,
    VerdictKind.JITTER: Tone.BAD,
    VerdictKind.NO_OVERLAP: Tone.BAD,
    VerdictKind.HOST_BOUND: Tone.BAD,
    VerdictKind.RECOMPILING: Tone.BAD,
    VerdictKind.UNEXPLAINED: Tone.BAD,
    VerdictKind.INCONCLUSIVE: Tone.OPEN,
}


def of_verdict(kind: VerdictKind, *, passes: bool) -> Tone:
    """Return the tone of a verdict; a bad kind that passes on this device is only a warning."""
    tone = OF_VERDICT[kind]
    return Tone.WARN if passes and tone is Tone.BAD else tone


def worst(tones: list[Tone]) -> Tone:
    """Return the worst of some tones; plain without any."""
    return min(tones, key=WORST_FIRST.index, default=Tone.PLAIN)
