"""What a comparison with a baseline comes to: PASS, REGRESSED, IMPROVED, ... Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from netpipe.gate.metrics import Metric
from netpipe.results.measurement import Interval, Measurement


class Outcome(StrEnum):
    """How a run compares with its baseline."""

    PASS = "PASS"
    REGRESSED = "REGRESSED"
    IMPROVED = "IMPROVED"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_COMPARED = "NOT_COMPARED"
    NO_BASELINE = "NO_BASELINE"


UNJUDGED: Final = (Outcome.NOT_COMPARED, Outcome.NO_BASELINE)
"""The outcomes of a metric that was not judged."""

ALARMS: Final = (Outcome.REGRESSED, Outcome.INCONCLUSIVE)
NO_WORSE: Final = (Outcome.PASS, Outcome.IMPROVED)
_WORST_FIRST: Final = (*ALARMS, Outcome.IMPROVED, Outcome.PASS, *UNJUDGED)


@dataclass(frozen=True)
class MetricComparison:
    """One metric against a baseline.

    Attributes:
        now: Its value now, the median over sessions.
        then: The baseline's median over sessions.
        worse: How much worse it is, with its interval over sessions: a factor, above 1 is worse;
            for a share the difference, above 0 is worse.
        baseline: The baseline's name; "" for pairs.
        reason: The figures behind the outcome, in one sentence.
        is_open: Whether another session may change the outcome.
        why_not: Why it is NOT_COMPARED; "" for every other outcome.
        is_comparable: Whether both values measure the same thing, so that `worse` has a meaning.
        is_reported_only: Whether it is NOT_COMPARED by design, with any baseline of this device.
        is_drift: Whether it was compared with the oldest comparable baseline, not the latest.
        oldest: The name of that baseline; "" where none before the latest is comparable.
    """

    metric: Metric
    outcome: Outcome
    now: float
    then: float
    worse: Interval
    bound: float
    baseline: str
    reason: str
    is_open: bool = False
    why_not: str = ""
    is_comparable: bool = True
    is_reported_only: bool = False
    is_drift: bool = False
    oldest: str = ""


@dataclass(frozen=True)
class Comparison:
    """One quantity against a baseline.

    Attributes:
        metric: The metric that decided; "" without a baseline.
        then: The baseline's median over sessions; None without a baseline.
        worse_ratio: By what factor it is worse than the baseline; above 1 is worse. For a share, 1
            plus the difference. None where the two cannot be compared.
        decisive: The metric that decided, compared; None without a baseline.
    """

    outcome: Outcome
    metric: str
    now: float
    then: float | None
    worse_ratio: float | None
    reason: str
    metrics: tuple[MetricComparison, ...] = ()
    decisive: MetricComparison | None = None

    @classmethod
    def without_baseline(
        cls, quantity: str, sessions: Sequence[Measurement], reason: str
    ) -> "Comparison":
        """Return the NO_BASELINE comparison of a quantity."""
        value: Interval = getattr(sessions[-1], quantity)
        return cls(Outcome.NO_BASELINE, "", value.median, None, None, reason)

    @classmethod
    def from_metrics(cls, metrics: Sequence[MetricComparison]) -> "Comparison":
        """Return the comparison of a quantity, which its worst metric decides."""
        worst = min(
            metrics,
            key=lambda metric: (_WORST_FIRST.index(metric.outcome), metric.is_reported_only),
        )
        ratio = worst.worse.median + worst.metric.is_share if worst.is_comparable else None
        return cls(
            worst.outcome, worst.metric.name, worst.now, worst.then, ratio, worst.reason,
            tuple(metrics), worst,
        )  # fmt: skip

    @property
    def is_open(self) -> bool:
        """Whether another session may change the outcome."""
        return self.outcome is not Outcome.REGRESSED and bool(self.open_reason)

    @property
    def open_reason(self) -> str:
        """The reason of the first metric that is open; "" where none is."""
        return next((metric.reason for metric in self.metrics if metric.is_open), "")

    @property
    def oldest(self) -> str:
        """The oldest baseline that the metric that decided was compared with; "" for none."""
        return self.decisive.oldest if self.decisive else ""

    @property
    def is_reported_only(self) -> bool:
        """Whether the metric that decided is NOT_COMPARED by design."""
        return self.decisive is not None and self.decisive.is_reported_only

    @property
    def by_metric(self) -> "tuple[Comparison, ...]":
        """Each of its metrics alone; itself without a baseline."""
        return tuple(Comparison.from_metrics([metric]) for metric in self.metrics) or (self,)
