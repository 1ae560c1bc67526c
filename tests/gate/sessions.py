"""Sessions with chosen figures, and comparisons of them, for the tests of the gate."""

from dataclasses import replace
from itertools import chain
from typing import Any

from netpipe.gate.comparison import BaselineSessions, compare
from netpipe.gate.metrics import GATED
from netpipe.gate.outcomes import Comparison
from netpipe.results.measurement import Interval, Measurement
from tests.measurements import make_measurement

WHERE, FIRST = "h200-x1/0002_b.json", "h200-x1/0001_a.json"
USUAL = {
    "load_cpu_ratio": 2.0,
    "load_s_per_batch": 0.010,
    "first_batch_s": 2.0,
    "peak_pss_bytes": 1e9,
    "growth_bytes_per_batch": 400e3,
    "step_s": 0.030,
    "train_s_per_step": 0.040,
    "accelerator_utilisation": 0.75,
    "sync_probe_fraction": 0.5,
}
BOUNDS = [  # quantity, metric, and values: just allowed, just too bad, clearly better
    ("load_s_per_batch", "load_cpu_ratio", 2.05, 2.07, 1.93),
    ("load_s_per_batch", "load_s_per_batch", 0.0109, 0.0111, 0.0090),
    ("load_s_per_batch", "first_batch_s", 2.98, 3.02, 1.3),
    ("load_s_per_batch", "peak_pss_bytes", 1.19e9, 1.21e9, 0.8e9),
    ("load_s_per_batch", "growth_bytes_per_batch", 790e3, 810e3, 190e3),
    ("step_s", "step_s", 0.0314, 0.0316, 0.0285),
    ("train_s_per_step", "train_s_per_step", 0.0419, 0.0421, 0.0380),
    ("train_s_per_step", "accelerator_utilisation", 0.715, 0.713, 0.79),
    ("train_s_per_step", "sync_probe_fraction", 0.74, 0.76, 0.24),
]
_NUMBERS = ("sync_probe_fraction", "first_batch_s", "peak_pss_bytes")
QUANTITY = {metric: quantity for quantity, metric, *_ in BOUNDS}


def session(changed: dict[str, float] | None = None, **others: Any) -> Measurement:
    """Make a session with these figures; the others are `USUAL`."""
    made = make_measurement(**others)
    figures = {**USUAL, **(changed or {})}
    fields: dict[str, Any] = {
        name: Interval(value, value, value, 9) if name not in _NUMBERS else value
        for name, value in figures.items()
    }
    return replace(made, **fields)


def costing(*factors: float, **others: Any) -> list[Measurement]:
    """Make one session per factor, whose loader costs the usual times that factor."""
    return [session({"load_cpu_ratio": 2.0 * factor}, **others) for factor in factors]


def stepping(*factors: float, **others: Any) -> list[Measurement]:
    """Make one session per factor, whose step takes the usual time times that factor."""
    return [session({"step_s": 0.030 * factor}, **others) for factor in factors]


BASELINE = BaselineSessions(WHERE, [session()] * 10)


def compared_cost(*factors: float, baseline: BaselineSessions = BASELINE) -> Comparison:
    """Compare sessions whose loader costs the usual times each factor with the baseline."""
    return compare("load_s_per_batch", costing(*factors), baseline)


def of_metric(comparison: Comparison, name: str) -> Comparison:
    """Return the comparison of one metric."""
    (found,) = (metric for metric in comparison.metrics if metric.metric == name)
    return found


def worse_of(comparison: Comparison) -> Interval:
    """Return how much worse a comparable metric is."""
    assert comparison.worse is not None
    return comparison.worse


def bounds_of(now: dict[str, Any], then: dict[str, Any]) -> dict[str, float]:
    """Return the largest accepted worsening of each metric between two sessions, by name."""
    baseline = BaselineSessions(WHERE, [session(**then)] * 10)
    comparisons = [compare(name, [session(**now)] * 2, baseline) for name in GATED]
    metrics = chain.from_iterable(comparison.metrics for comparison in comparisons)
    return {metric.metric: metric.bound for metric in metrics}
