"""How often a predicted direction is right: lines, a Markdown table, the goal."""

from collections.abc import Iterator, Sequence
from typing import Final

from netpipe.results.units import format_ratio_interval
from perf_tests.studies.diagnosis.predicting import KINDS, READS, VERIFIED, Predicting
from perf_tests.studies.proportions import Proportion

MIN_RIGHT_FRACTION: Final = 0.90
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
    if trial.measured_speedup is None:
        return trial.failure
    judged = {None: "not judged", True: "right", False: "WRONG"}[trial.is_right]
    claim = f" ({format_ratio_interval(trial.speedup)})" if trial.speedup else ""
    return (
        f"{trial.kind} {trial.expected}{claim}, measured {trial.measured_speedup:.2f} times as "
        f"fast: {judged}"
    )


def meets_goal(trials: Sequence[Predicting]) -> bool:
    """Return whether enough directions are right; without any the goal is not met."""
    return count_right(trials).fraction >= MIN_RIGHT_FRACTION


def count_right(trials: Sequence[Predicting]) -> Proportion:
    """Count the right directions among those that diagnose gave."""
    return Proportion.of([trial.is_right for trial in trials if trial.is_right is not None])


def format_table(trials: Sequence[Predicting]) -> Iterator[str]:
    """Yield a Markdown row for each kind of change, for all, and for trials on an idle machine."""
    yield "| change | trials | unclear or missing | direction right | inside the interval |"
    yield "|---|--:|--:|--:|--:|"
    groups = {
        kind: [trial for trial in trials if trial.kind == kind]
        for kind in (*KINDS, READS, VERIFIED)
    }
    groups["all predictions"] = [trial for trial in trials if trial.kind != VERIFIED]
    for name, group in groups.items():
        idle = [trial for trial in group if trial.busy_elsewhere_fraction <= IDLE_FRACTION]
        for row, members in ((name, group), (f"{name}, others idle", idle)):
            if members:
                yield _format_row(row, members)


def _format_row(name: str, trials: Sequence[Predicting]) -> str:
    right = count_right(trials)
    inside = Proportion.of([trial.is_inside for trial in trials if trial.is_inside is not None])
    shares = (str(share) if share.total else "" for share in (right, inside))
    return " | ".join(
        (f"| {name}", str(len(trials)), str(len(trials) - right.total), *shares, "")
    ).rstrip()
