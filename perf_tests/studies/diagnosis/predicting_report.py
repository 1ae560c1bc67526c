"""The errors of predictions: lines, a Markdown table, the goal."""

from collections.abc import Iterator, Sequence
from math import inf
from statistics import median
from typing import Final

from netpipe.results.measurement import Interval
from netpipe.results.statistics import percentiles
from perf_tests.studies.diagnosis.predicting import KINDS, READS, Predicting
from perf_tests.studies.proportions import Proportion

MAX_CLOSE_FRACTION: Final = 0.20
MIN_CLOSE_FRACTION: Final = 0.80
# Largest fraction of the machine's CPU time that other programs take while it is idle.
IDLE_FRACTION: Final = 0.10


def format_trial(trial: Predicting) -> str:
    """Return one line about a trial."""
    pipeline = trial.pipeline
    stages = ", ".join(
        f"{stage} {work.how} {1e3 * work.s_per_batch:g} ms"
        for stage in pipeline.working
        for work in (getattr(pipeline, stage),)
    )
    stages = ", ".join(filter(None, (trial.pipeline.storage, stages)))
    about = f"seed {trial.seed}: {stages}; workers {pipeline.workers}, threads {pipeline.threads}"
    return f"{about}; {trial.change or trial.kind}: {_describe_outcome(trial)}"


def _describe_outcome(trial: Predicting) -> str:
    if trial.error_fraction is None:
        return trial.failure
    seconds = (trial.before_s_per_batch, trial.predicted_s_per_batch, trial.measured_s_per_batch)
    before, predicted, measured = map(_format_ms, seconds)
    error = f"{100 * trial.error_fraction:.0f}%"
    return f"{before}, predicted {predicted}, measured {measured}: off by {error}"


def _format_ms(seconds: Interval | None) -> str:
    return f"{1e3 * seconds.median:.1f} ms" if seconds else "-"


def meets_goal(trials: Sequence[Predicting]) -> bool:
    """Return whether enough errors are small; without trials the goal is not met."""
    return bool(trials) and count_close(trials).fraction >= MIN_CLOSE_FRACTION


def count_close(trials: Sequence[Predicting]) -> Proportion:
    """Count the predictions with a small error; a missing one is not close."""
    return _count_small([trial.error_fraction for trial in trials])


def format_table(trials: Sequence[Predicting]) -> Iterator[str]:
    """Yield a Markdown row for each kind of change, for all, and for trials on an idle machine."""
    yield (
        "| change | trials | within 20% | inside the interval | median error | 90th percentile |"
        " within 20% on a steady machine |"
    )
    yield "|---|--:|--:|--:|--:|--:|--:|"
    kinds = (*KINDS, READS)
    groups = {kind: [trial for trial in trials if trial.kind == kind] for kind in kinds}
    idle = [trial for trial in trials if trial.busy_elsewhere_fraction <= IDLE_FRACTION]
    for name, group in {**groups, "all": list(trials), "all, others idle": idle}.items():
        if group:
            yield _format_row(name, group)


def _format_row(name: str, trials: Sequence[Predicting]) -> str:
    errors = [trial.error_fraction for trial in trials]
    steady = _count_small([trial.steady_error_fraction for trial in trials])
    known = [inf if error is None else error for error in errors]
    middle, most = (
        "none predicted" if error == inf else f"{100 * error:.0f}%"
        for error in (median(known), percentiles(known)[90])
    )
    inside = Proportion.of([trial.is_inside for trial in trials])
    close = _count_small(errors)
    return f"| {name} | {len(trials)} | {close} | {inside} | {middle} | {most} | {steady} |"


def _count_small(errors: Sequence[float | None]) -> Proportion:
    return Proportion.of([error is not None and error <= MAX_CLOSE_FRACTION for error in errors])
