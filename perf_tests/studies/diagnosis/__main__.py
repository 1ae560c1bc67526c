"""`python -m perf_tests.studies.diagnosis`: check `netpipe diagnose`."""

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NoReturn

import click
from rich.console import Console

from netpipe.errors import NetpipeError
from perf_tests.studies.diagnosis import naming, naming_report, predicting, predicting_report
from perf_tests.studies.faults.busy import busy_core
from perf_tests.studies.faults.cases import Case
from perf_tests.studies.options import exit_on_signals, only_cases
from perf_tests.studies.records import append_record, read_records

_FOLDER: Final = Path(__file__).parent
_BUDGET_S: Final = 20.0
_notes = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)


_first = click.option("--first", type=int, default=1, show_default=True, help="The first seed.")
_minutes = click.option(
    "--minutes", type=click.FloatRange(min=0), default=60.0, show_default=True,
    help="Minutes after which no trial begins.",
)  # fmt: skip
_budget = click.option(
    "--budget", type=click.FloatRange(min=0, min_open=True), default=_BUDGET_S,
    show_default=True, help="Seconds that a diagnosis may measure.",
)  # fmt: skip
_busy = click.option("--busy", is_flag=True, help="Keep one core busy with something else.")


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Compare the answers of `netpipe diagnose` with planted stages and real effects.

    Each trial is a line of a file, and is not run again. --minutes 0 only prints the table. The
    exit code is 0 if the goal is met, 1 otherwise.
    """
    exit_on_signals()


@main.command()
@_first
@click.option(
    "--seeds", type=click.IntRange(min=1), default=2, show_default=True,
    help="Seeds; every case is diagnosed once with each.",
)  # fmt: skip
@only_cases
@_minutes
@_budget
@click.option(
    "--trials", "path", type=click.Path(dir_okay=False, path_type=Path),
    default=_FOLDER / "named.jsonl", show_default=True, help="The file of trials.",
)  # fmt: skip
def named(
    first: int, seeds: int, cases: Sequence[Case], minutes: float, budget: float, path: Path
) -> None:
    """Diagnose every case with a planted stage: are stage and resource correct?"""

    def run_missing() -> Iterator[naming.Naming]:
        done = {(trial.case, trial.seed) for trial in read_records(path, naming.Naming)}
        ends_s = time.monotonic() + 60 * minutes
        for seed in range(first, first + seeds):
            for case in cases:
                if case.planted and (case.name, seed) not in done and time.monotonic() < ends_s:
                    yield naming.run(case, seed, budget)

    _report(path, naming.Naming, run_missing(), naming_report)


@main.command()
@_first
@click.option(
    "--seeds", type=click.IntRange(min=1), default=36, show_default=True,
    help="Seeds; each draws a pipeline and one or two changes of it.",
)  # fmt: skip
@_minutes
@_budget
@click.option(
    "--trials", "path", type=click.Path(dir_okay=False, path_type=Path),
    default=_FOLDER / "trials.jsonl", show_default=True, help="The file of trials.",
)  # fmt: skip
@_busy
def predicted(
    first: int, seeds: int, minutes: float, budget: float, path: Path, busy: bool
) -> None:
    """Change random pipelines as diagnose proposes: are its directions right?"""
    with busy_core() if busy else nullcontext():
        _predict(predicting.run, first, seeds, minutes, budget, path)


@main.command()
@_first
@click.option(
    "--seeds", type=click.IntRange(min=1), default=20, show_default=True,
    help="Seeds; each draws a storage, a pipeline, and a number of reads in flight.",
)  # fmt: skip
@_minutes
@_budget
@click.option(
    "--trials", "path", type=click.Path(dir_okay=False, path_type=Path),
    default=_FOLDER / "reads.jsonl", show_default=True, help="The file of trials.",
)  # fmt: skip
@_busy
def reads(first: int, seeds: int, minutes: float, budget: float, path: Path, busy: bool) -> None:
    """Change the reads in flight of random pipelines: are the directions right?"""
    with busy_core() if busy else nullcontext():
        _predict(predicting.run_slow_reads, first, seeds, minutes, budget, path)


def _predict(
    run: Callable[[int, float], Iterator[predicting.Predicting]],
    first: int, seeds: int, minutes: float, budget: float, path: Path,
) -> NoReturn:  # fmt: skip
    def run_missing() -> Iterator[predicting.Predicting]:
        done = {trial.seed for trial in read_records(path, predicting.Predicting)}
        ends_s = time.monotonic() + 60 * minutes
        for seed in range(first, first + seeds):
            if seed not in done and time.monotonic() < ends_s:
                yield from run(seed, budget)

    _report(path, predicting.Predicting, run_missing(), predicting_report)


def _report(path: Path, kind: type[Any], new: Iterable[object], report: ModuleType) -> NoReturn:
    """Record each new trial at its end, print the table of all trials, and exit."""
    try:
        for trial in new:
            append_record(path, trial)
            _notes.print(report.format_trial(trial))
        trials = read_records(path, kind)
    except NetpipeError as error:
        raise click.ClickException(str(error)) from error
    for text in report.format_table(trials):
        click.echo(text)
    sys.exit(0 if report.meets_goal(trials) else 1)


if __name__ == "__main__":
    main()
