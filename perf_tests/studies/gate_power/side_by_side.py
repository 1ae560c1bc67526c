"""`python -m perf_tests.studies.gate_power.side_by_side`: time two versions repeatedly."""

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from math import inf
from pathlib import Path
from statistics import median
from typing import Final

import click
from rich.console import Console

from netpipe.duets.duet_request import DuetRequest
from netpipe.duets.parent import Side, run_duet
from netpipe.errors import NetpipeError
from netpipe.gate.duets import Duet, decide, decide_in_duets
from netpipe.gate.outcomes import Comparison, Outcome
from netpipe.git import git
from netpipe.jobs.parent import CHILD_COMMAND
from netpipe.jobs.targets import Target, name_targets
from perf_tests.studies.faults.busy import busy_core
from perf_tests.studies.gate_power.slowdowns import Slowdown
from perf_tests.studies.options import exit_on_signals
from perf_tests.studies.proportions import Proportion
from perf_tests.studies.records import append_record, read_records

_KEPT: Final = Path(__file__).with_name("side_by_side.jsonl")
_MODULE: Final = "perf_tests.studies.gate_power.slowdowns"
_REMOTE: Final = Slowdown("wait", 200)  # 20 ms, like the wait of a batch for remote storage
_NOTHING: Final = Slowdown()
_ON_GPU: Final = Slowdown(size="gpu_")
_COPYING_MORE: Final = Slowdown("transfer", 1024, "gpu_")
_ON_20_SEQUENCES: Final = Slowdown("sequences", 20, "gpu_")
_DIGITS: Final = 6
FEWEST: Final = 20
"""With fewer trials, an interval is too wide to say anything."""
_notes = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Case:
    """Two versions, the metric that compares them, and the number of comparisons."""

    name: str
    quantity: str
    before: Slowdown
    after: Slowdown
    trials: int

    @property
    def is_slower(self) -> bool:
        """Whether the second version is slower."""
        return self.before != self.after

    @property
    def is_for_gpu(self) -> bool:
        """Whether its batches and model suit only a GPU."""
        return bool(self.before.size)


CASES: Final = {
    case.name: case
    for case in (
        Case("nothing, loading", "load_s_per_batch", _NOTHING, _NOTHING, 80),
        Case("nothing, a loader that waits", "load_s_per_batch", _REMOTE, _REMOTE, 20),
        Case("nothing, steps", "step_s", _NOTHING, _NOTHING, 60),
        Case("nothing, training", "train_s_per_step", _NOTHING, _NOTHING, 60),
        Case("loader CPU, 5%", "load_s_per_batch", _NOTHING, Slowdown("cpu", 4), 40),
        Case("loader CPU, 10%", "load_s_per_batch", _NOTHING, Slowdown("cpu", 8), 20),
        Case("loader wait, 5%", "load_s_per_batch", _REMOTE, Slowdown("wait", 215), 20),
        Case("loader wait, 10%", "load_s_per_batch", _REMOTE, Slowdown("wait", 230), 40),
        Case("loader wait, 20%", "load_s_per_batch", _REMOTE, Slowdown("wait", 260), 20),
        Case("loader CPU, 2%", "load_s_per_batch", _NOTHING, Slowdown("cpu", 2), 20),
        Case("loader CPU, 3%", "load_s_per_batch", _NOTHING, Slowdown("cpu", 3), 20),
        Case("step, 5%", "step_s", _NOTHING, Slowdown("step", 160), 20),
        Case("step, 10%", "step_s", _NOTHING, Slowdown("step", 320), 20),
        Case("transfer, 20%", "step_s", _NOTHING, Slowdown("transfer", 24), 20),
        Case("GPU, nothing, training", "train_s_per_step", _ON_GPU, _ON_GPU, 1),
        Case("GPU, loader CPU, 5%", "load_s_per_batch", _ON_GPU, Slowdown("cpu", 3, "gpu_"), 1),
        Case("GPU, step, 5%", "step_s", _ON_20_SEQUENCES, Slowdown("sequences", 21, "gpu_"), 1),
        Case("GPU, transfer, 1 GiB", "train_s_per_step", _ON_GPU, _COPYING_MORE, 1),
    )
}
"""The cases by name. What a slowdown adds on this machine is measured: the table shows it."""


@dataclass(frozen=True)
class Trial:
    """One comparison of two versions, as a run against a ref makes it.

    Attributes:
        is_busy: Whether another program loaded a core at random during the trial.
        duets: The duets that decided the comparison.
    """

    case: str
    commit: str
    began: str
    is_busy: bool
    duration_s: float
    duets: tuple[Duet, ...]

    @property
    def comparison(self) -> Comparison:
        """The comparison of the duets by the current rule."""
        return decide(CASES[self.case].quantity, self.duets)


def run_trial(case: Case, *, is_busy: bool, budget_s: float) -> Trial:
    """Compare the versions of a case once."""
    began, started_s = datetime.now(UTC), time.monotonic()
    request = DuetRequest(budget_s=budget_s, quantity=case.quantity)
    base, now = (
        Side(name, CHILD_COMMAND, replace(request, targets=_targets(case, slowdown)))
        for name, slowdown in (("before", case.before), ("after", case.after))
    )
    duets: list[Duet] = []
    with busy_core(at_random=True) if is_busy else nullcontext():
        decide_in_duets(case.quantity, duets, partial(run_duet, base, now))
    return Trial(
        case=case.name,
        commit=git(Path(), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"),
        began=began.isoformat(timespec="seconds"),
        is_busy=is_busy,
        duration_s=round(time.monotonic() - started_s, 1),
        duets=tuple(map(_shorten, duets)),
    )


def _targets(case: Case, slowdown: Slowdown) -> dict[str, Target]:
    name = f"{slowdown.size}{slowdown.kind}_{slowdown.doses}"
    step = None if case.quantity == "load_s_per_batch" else f"{_MODULE}:step_{name}"
    return name_targets(loader=f"{_MODULE}:loader_{name}", step=step)


def _round(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _shorten(duet: Duet) -> Duet:
    """Round the values of a duet."""
    base, now = (
        {name: tuple(map(_round, values)) for name, values in side.items()}
        for side in (duet.base, duet.now)
    )
    fractions = tuple(map(_round, duet.busy_elsewhere_fraction))
    return replace(duet, base=base, now=now, busy_elsewhere_fraction=fractions)


def find_missing(done: Sequence[Trial], cases: Sequence[Case]) -> Iterator[tuple[Case, bool]]:
    """Yield the cases still to try, in turns; every second trial of each runs beside a program."""
    counts = {case.name: sum(trial.case == case.name for trial in done) for case in cases}
    for number in range(max(case.trials for case in cases)):
        for case in cases:
            if counts[case.name] <= number < case.trials:
                yield case, number % 2 == 1


def format_table(trials: Sequence[Trial]) -> Iterator[str]:
    """Format the outcomes of each case as Markdown, except those with too few trials."""
    yield "| slowed down | measured | trials | REGRESSED | INCONCLUSIVE | duets | seconds |"
    yield "|---|---|--:|---|---|--:|--:|"
    for case in CASES.values():
        tried = [trial for trial in trials if trial.case == case.name]
        for is_busy in (False, True) if len(tried) >= min(case.trials, FEWEST) else ():
            chosen = [trial for trial in tried if trial.is_busy is is_busy]
            if chosen:
                beside = ", beside a busy program" if is_busy else ""
                yield f"| {case.name}{beside} | {' | '.join(_cells(chosen))} |"


def _cells(trials: Sequence[Trial]) -> Iterator[str]:
    found = [trial.comparison for trial in trials]
    worst = max(found[0].metrics, key=lambda metric: median(_ratios(found, metric.metric)))
    yield f"{median(_ratios(found, worst.metric)):.3f} x {worst.metric}"
    yield str(len(trials))
    for outcome in (Outcome.REGRESSED, Outcome.INCONCLUSIVE):
        yield str(Proportion.of([each.outcome is outcome for each in found]))
    yield f"{sum(len(trial.duets) for trial in trials) / len(trials):.1f}"
    yield f"{median(trial.duration_s for trial in trials):.0f}"


def _ratios(found: Sequence[Comparison], name: str) -> list[float]:
    metrics = (metric for comparison in found for metric in comparison.metrics)
    return [each.worse.median for each in metrics if each.metric == name and each.worse] or [0.0]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--only", multiple=True, type=click.Choice(tuple(CASES)),
    help="Only this case. May be repeated. Cases of a GPU run only if they are named.",
)  # fmt: skip
@click.option(
    "--minutes", type=click.FloatRange(min=0), default=inf,
    help="Minutes after which no trial begins.",
)  # fmt: skip
@click.option(
    "--budget", type=click.FloatRange(min=0, min_open=True), default=20.0, show_default=True,
    help="The budget; a duet takes half of it.",
)  # fmt: skip
@click.option(
    "--trials", "path", type=click.Path(dir_okay=False, path_type=Path),
    default=_KEPT, show_default=True, help="The file of trials.",
)  # fmt: skip
def main(only: tuple[str, ...], minutes: float, budget: float, path: Path) -> None:
    """Time unchanged and slowed code side by side, and count the gate's outcomes.

    Each trial is kept in a file as soon as it is done; those that the file holds are not repeated.
    --minutes 0 runs nothing and prints the table. The exit code is 1 when unchanged code was
    REGRESSED.
    """
    exit_on_signals()
    try:
        done = read_records(path, Trial)
        default = (name for name, case in CASES.items() if not case.is_for_gpu)
        missing = list(find_missing(done, [CASES[name] for name in only or default]))
        ends_s = time.monotonic() + 60 * minutes
        for case, is_busy in takewhile(lambda _: time.monotonic() < ends_s, missing):
            done.append(run_trial(case, is_busy=is_busy, budget_s=budget))
            append_record(path, done[-1])
            _notes.print(f"{case.name}: {done[-1].comparison.reason}")
    except NetpipeError as error:
        raise click.ClickException(str(error)) from error
    for line in format_table(done):
        click.echo(line)
    chosen = (trial for trial in done if trial.case in (only or CASES))
    unchanged = (trial for trial in chosen if not CASES[trial.case].is_slower)
    alarms = (trial.comparison.outcome is Outcome.REGRESSED for trial in unchanged)
    sys.exit(1 if any(alarms) else 0)


if __name__ == "__main__":
    main()
