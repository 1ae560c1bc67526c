"""The outcomes of a comparison with a baseline: PASS, REGRESSED, IMPROVED, ... Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf, isfinite
from typing import Final

from netpipe.gate.metrics import METRICS
from netpipe.results.measurement import Interval


class Outcome(StrEnum):
    """The outcome of comparing a run with its baseline."""

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
WORST_FIRST: Final = (*ALARMS, Outcome.IMPROVED, Outcome.PASS, *UNJUDGED)


@dataclass(frozen=True)
class Comparison:
    """The comparison of a metric with a baseline, or of a quantity, which its worst metric decides.

    Attributes:
        metric: The name of a metric or of a kind of work; "" without a baseline.
        now: The metric's value now, the median over sessions.
        then: The baseline's value, the median over its sessions; None without a baseline.
        reason: The figures behind the outcome, in one sentence.
        worse: The change and its interval over sessions: a factor, worse if above 1; for a share,
            the difference, worse if above 0. None if the two cannot be compared.
        bound: The largest accepted value of `worse`.
        baseline: The baseline's name; "" for duets.
        is_open: Whether another session may change the outcome.
        is_reported_only: Whether it is NOT_COMPARED by design, for any baseline of this device.
        shown_change: The change to show in a table instead of `worse`; "" for that.
        is_drift: Whether it was compared with the oldest comparable baseline, not the latest.
        oldest: The name of the oldest comparable baseline; "" if no earlier one is comparable.
        metrics: The comparisons of a quantity's metrics; empty for a metric or without a baseline.
    """

    outcome: Outcome
    metric: str
    now: float
    then: float | None
    reason: str
    worse: Interval | None = None
    bound: float = inf
    baseline: str = ""
    is_open: bool = False
    is_reported_only: bool = False
    shown_change: str = ""
    is_drift: bool = False
    oldest: str = ""
    metrics: "tuple[Comparison, ...]" = ()

    @classmethod
    def without_baseline(cls, reason: str, now: float = 0.0) -> "Comparison":
        """Return a NO_BASELINE comparison; `now` is the median of its quantity, 0 for work."""
        return cls(Outcome.NO_BASELINE, "", now, None, reason)

    @classmethod
    def from_metrics(cls, metrics: "Sequence[Comparison]") -> "Comparison":
        """Combine the comparisons of a quantity's metrics; the worst metric decides."""
        worst = min(
            metrics,
            key=lambda metric: (WORST_FIRST.index(metric.outcome), metric.is_reported_only),
        )
        is_open = any(metric.is_open for metric in metrics)
        return replace(worst, metrics=tuple(metrics), is_open=is_open)

    @property
    def worse_ratio(self) -> float | None:
        """The change as a factor, above 1 if it is worse; for a share, 1 plus the difference."""
        if self.worse is None or not isfinite(self.worse.median):
            return None
        metric = METRICS.get(self.metric)  # None for a count of work
        return self.worse.median + (metric is not None and metric.is_share)
