"""How far predictions are off: lines, a table in Markdown, the goal."""

from collections.abc import Iterator, Sequence
from math import inf
from statistics import median
from typing import Final

from netpipe.harness.measurement import Interval
from netpipe.harness.stats import percentile
from perf_tests.diagnosis.predicting import KINDS, Predicting
from perf_tests.gate_power.rates import Share

CLOSE_FRACTION: Final = 0.20
LEAST_CLOSE_FRACTION: Final = 0.80


def line(trial: Predicting) -> str:
    """Return one line about a trial."""
    pipeline = trial.pipeline
    stages = ", ".join(
        f"{stage} {work.how} {1e3 * work.s_per_batch:g} ms"
        for stage in pipeline.working
        for work in (getattr(pipeline, stage),)
    )
    about = f"seed {trial.seed}: {stages}; workers {pipeline.workers}, threads {pipeline.threads}"
    return f"{about}; {trial.change or trial.kind}: {_outcome(trial)}"


def _outcome(trial: Predicting) -> str:
    if trial.error_fraction is None:
        return trial.failure
    return (
        f"{_ms(trial.before_s_per_batch)}, predicted {_ms(trial.predicted_s_per_batch)},"
        f" came {_ms(trial.measured_s_per_batch)}: off by {100 * trial.error_fraction:.0f}%"
    )


def _ms(seconds: Interval | None) -> str:
    return f"{1e3 * seconds.median:.1f} ms" if seconds else "-"


def error_of(trial: Predicting) -> float:
    """Return how far a prediction is off; one that is missing is off by any amount."""
    return inf if trial.error_fraction is None else trial.error_fraction


def close(trials: Sequence[Predicting]) -> Share:
    """Return how many predictions are close to what came."""
    found = sum(error_of(trial) <= CLOSE_FRACTION for trial in trials)
    return Share(found, len(trials), len(trials))


def meets_goal(trials: Sequence[Predicting]) -> bool:
    """Whether enough are close; nothing tried shows nothing."""
    return bool(trials) and close(trials).fraction >= LEAST_CLOSE_FRACTION


def table(trials: Sequence[Predicting]) -> Iterator[str]:
    """Write a row for each kind of change in Markdown, and one for all."""
    yield "| change | trials | within 20% | median error | 90th percentile |"
    yield "|---|--:|--:|--:|--:|"
    groups = {kind: [trial for trial in trials if trial.kind == kind] for kind in KINDS}
    for name, group in {**groups, "all": list(trials)}.items():
        if group:
            yield _row(name, group)


def _row(name: str, trials: Sequence[Predicting]) -> str:
    errors = [error_of(trial) for trial in trials]
    middle, most = median(errors), percentile(errors, 0.9)
    return f"| {name} | {len(trials)} | {close(trials)} | {_shown(middle)} | {_shown(most)} |"


def _shown(error_fraction: float) -> str:
    return "none predicted" if error_fraction == inf else f"{100 * error_fraction:.0f}%"
