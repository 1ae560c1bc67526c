"""Proportions with their intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

_LEVEL: Final = 0.95


@dataclass(frozen=True)
class Proportion:
    """A count out of a total, with its interval.

    The interval is Wilson's (J. Am. Stat. Assoc. 22, 1927, p. 209), with one independent trial
    per session behind the decisions: decisions on the same sessions are not independent.
    """

    found: int
    total: int
    independent: int

    @classmethod
    def of(cls, successes: Sequence[bool]) -> Self:
        """Count successes in independent trials."""
        return cls(sum(successes), len(successes), len(successes))

    @property
    def fraction(self) -> float:
        """The fraction of successes; 0 without trials."""
        return self.found / self.total if self.total else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """The 95% interval."""
        from scipy.stats import binomtest

        trials = min(self.total, self.independent)
        if trials == 0:
            return 0.0, 1.0
        test = binomtest(round(self.fraction * trials), trials)
        low, high = test.proportion_ci(_LEVEL, method="wilson")
        return float(low), float(high)

    def __str__(self) -> str:
        """Format as percentages: `96.2% (87 to 99)`."""
        low, high = self.interval
        return f"{100 * self.fraction:.1f}% ({100 * low:.0f} to {100 * high:.0f})"
