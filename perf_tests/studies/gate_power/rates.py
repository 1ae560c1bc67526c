"""How often decisions come to what they should, with intervals, as Markdown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from netpipe.gate.outcomes import Outcome
from perf_tests.studies.gate_power.decisions import Decision

_LEVEL: Final = 0.95
_MOST_FALSE_ALARMS: Final = 0.01


@dataclass(frozen=True)
class Share:
    """How many of so many, with its interval.

    The interval is Wilson's (J. Am. Stat. Assoc. 22, 1927, p. 209), for as many independent trials
    as there are sessions behind the decisions: decisions that share sessions are not independent.

    Attributes:
        found: How many.
        decisions: Of how many.
        independent: Sessions that they rest on.
    """

    found: int
    decisions: int
    independent: int

    @property
    def fraction(self) -> float:
        """The share."""
        return self.found / self.decisions if self.decisions else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95% interval."""
        from scipy.stats import binomtest

        trials = min(self.decisions, self.independent)
        if trials == 0:
            return 0.0, 1.0
        test = binomtest(round(self.fraction * trials), trials)
        low, high = test.proportion_ci(_LEVEL, method="wilson")
        return float(low), float(high)

    def __str__(self) -> str:
        """Write it as percentages: `96.2% (87 to 99)`."""
        low, high = self.interval
        return f"{100 * self.fraction:.1f}% ({100 * low:.0f} to {100 * high:.0f})"


@dataclass(frozen=True)
class Row:
    """The decisions on one slowdown.

    Attributes:
        name: What was slowed down.
        slower: By how much, as measured: a factor, with what it was measured on.
        decisions: What the gate came to.
        sessions: Different sessions behind them.
        is_identical: Nothing was slowed down.
    """

    name: str
    slower: str
    decisions: Sequence[Decision]
    sessions: int
    is_identical: bool = False

    @property
    def raises_false_alarms(self) -> bool:
        """Whether identical code is REGRESSED more often than a gate may."""
        return self.is_identical and self.share(Outcome.REGRESSED).fraction > _MOST_FALSE_ALARMS

    def share(self, outcome: Outcome) -> Share:
        """Return how many decisions came to an outcome."""
        found = sum(one.outcome is outcome for one in self.decisions)
        return Share(found, len(self.decisions), self.sessions)

    @property
    def sessions_per_decision(self) -> float:
        """How many sessions a decision took."""
        return sum(one.sessions for one in self.decisions) / max(1, len(self.decisions))


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Write the rows as a Markdown table."""
    yield (
        "| slowed down | measured | decisions | sessions | REGRESSED | INCONCLUSIVE | "
        "sessions a decision |"
    )
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        yield (
            f"| {row.name} | {row.slower} | {len(row.decisions)} | {row.sessions} | "
            f"{row.share(Outcome.REGRESSED)} | {row.share(Outcome.INCONCLUSIVE)} | "
            f"{row.sessions_per_decision:.1f} |"
        )
