"""How far predictions are off: lines, a table in Markdown, the goal."""

from collections.abc import Iterator, Sequence
from math import inf
from statistics import median
from typing import Final

from netpipe.results.measurement import Interval
from netpipe.results.statistics import percentile
from perf_tests.studies.diagnosis.predicting import KINDS, Predicting
from perf_tests.studies.gate_power.rates import Share

CLOSE_FRACTION: Final = 0.20
LEAST_CLOSE_FRACTION: Final = 0.80
CALM_FRACTION: Final = 0.10  # of the machine's CPU time that other programs took


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


def close(errors: Sequence[float | None]) -> Share:
    """Return how many errors are small; one that is missing is not."""
    found = sum(_error(one) <= CLOSE_FRACTION for one in errors)
    return Share(found, len(errors), len(errors))


def meets_goal(trials: Sequence[Predicting]) -> bool:
    """Whether enough are close; nothing tried shows nothing."""
    share = close([trial.error_fraction for trial in trials])
    return bool(trials) and share.fraction >= LEAST_CLOSE_FRACTION


def table(trials: Sequence[Predicting]) -> Iterator[str]:
    """Write a row for each kind of change in Markdown, one for all, one for a calm machine."""
    yield (
        "| change | trials | within 20% | median error | 90th percentile |"
        " within 20% on a steady machine |"
    )
    yield "|---|--:|--:|--:|--:|--:|"
    groups = {kind: [trial for trial in trials if trial.kind == kind] for kind in KINDS}
    calm = [trial for trial in trials if trial.busy_elsewhere_fraction <= CALM_FRACTION]
    for name, group in {**groups, "all": list(trials), "all, others idle": calm}.items():
        if group:
            yield _row(name, group)


def _row(name: str, trials: Sequence[Predicting]) -> str:
    errors = [trial.error_fraction for trial in trials]
    steady = close([trial.steady_error_fraction for trial in trials])
    known = [_error(one) for one in errors]
    middle, most = median(known), percentile(known, 0.9)
    return (
        f"| {name} | {len(trials)} | {close(errors)} | {_shown(middle)} | {_shown(most)} |"
        f" {steady} |"
    )


def _error(error_fraction: float | None) -> float:
    return inf if error_fraction is None else error_fraction


def _shown(error_fraction: float) -> str:
    return "none predicted" if error_fraction == inf else f"{100 * error_fraction:.0f}%"
