"""Rates of right decisions with intervals, as Markdown."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from netpipe.gate.outcomes import Outcome
from perf_tests.studies.gate_power.decisions import Decision
from perf_tests.studies.proportions import Proportion

_MOST_FALSE_ALARMS: Final = 0.01


@dataclass(frozen=True)
class Row:
    """The decisions on one slowdown.

    Attributes:
        slower: The measured slowdown: a factor, and its metric.
        sessions: Number of distinct sessions behind the decisions.
        is_identical: Whether nothing was slowed down.
    """

    name: str
    slower: str
    decisions: Sequence[Decision]
    sessions: int
    is_identical: bool = False

    @property
    def raises_false_alarms(self) -> bool:
        """Whether identical code is REGRESSED more often than a gate may."""
        return (
            self.is_identical
            and self.proportion_of(Outcome.REGRESSED).fraction > _MOST_FALSE_ALARMS
        )

    def proportion_of(self, outcome: Outcome) -> Proportion:
        """Return the proportion of decisions with an outcome."""
        found = sum(decision.outcome is outcome for decision in self.decisions)
        return Proportion(found, len(self.decisions), self.sessions)

    @property
    def sessions_per_decision(self) -> float:
        """Mean number of sessions per decision."""
        return sum(decision.sessions for decision in self.decisions) / max(1, len(self.decisions))


def format_table(rows: Sequence[Row]) -> Iterator[str]:
    """Format the rows as a Markdown table."""
    yield (
        "| slowed down | measured | decisions | sessions | REGRESSED | INCONCLUSIVE | "
        "sessions a decision |"
    )
    yield "|---|---|---|---|---|---|---|"
    for row in rows:
        yield (
            f"| {row.name} | {row.slower} | {len(row.decisions)} | {row.sessions} | "
            f"{row.proportion_of(Outcome.REGRESSED)} | {row.proportion_of(Outcome.INCONCLUSIVE)} | "
            f"{row.sessions_per_decision:.1f} |"
        )
