"""`python -m perf_tests.studies.diagnosis`: check `netpipe diagnose`."""

import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from netpipe.errors import NetpipeError
from perf_tests.studies.diagnosis import naming, naming_report, predicting, predicting_report
from perf_tests.studies.diagnosis.records import append_record, read_records
from perf_tests.studies.faults.catalogue import chosen

_FOLDER: Final = Path(__file__).parent
_BUDGET_S: Final = 20.0
_notes = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)


def _checked_names(_: click.Context, __: click.Parameter, names: Sequence[str]) -> Sequence[str]:
    try:
        chosen(names)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error
    return names


_first = click.option("--first", type=int, default=1, show_default=True, help="The first seed.")
_minutes = click.option(
    "--minutes", type=click.FloatRange(min=0), default=60.0, show_default=True,
    help="Begin no trial after so long.",
)  # fmt: skip
_budget = click.option(
    "--budget", type=click.FloatRange(min=0, min_open=True), default=_BUDGET_S,
    show_default=True, help="Seconds that a diagnosis may measure.",
)  # fmt: skip


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Hold `netpipe diagnose` to what was planted and to what comes of its predictions.

    Trials are kept in a file, one a line, each as soon as it is done; what the file holds is not
    run again. --minutes 0 runs nothing and prints the table. The exit code is 0 when the goal is
    met, 1 otherwise.
    """
    # So that the processes that were started are ended too.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


@main.command()
@_first
@click.option(
    "--seeds", type=click.IntRange(min=1), default=2, show_default=True,
    help="Seeds; every case is diagnosed once with each.",
)  # fmt: skip
@click.option(
    "--only", multiple=True, metavar="GLOB", callback=_checked_names,
    help="Only cases of such a name. May be given again.",
)  # fmt: skip
@_minutes
@_budget
@click.option(
    "--trials", "path", type=click.Path(dir_okay=False, path_type=Path),
    default=_FOLDER / "named.jsonl", show_default=True, help="The file of trials.",
)  # fmt: skip
def named(
    first: int, seeds: int, only: Sequence[str], minutes: float, budget: float, path: Path
) -> None:
    """Diagnose every case with a planted stage: are the stage and its resource named?"""
    try:
        done = {(one.case, one.seed) for one in read_records(path, naming.Naming)}
        cases = [case for case in chosen(only) if case.planted]
        ends_s = time.monotonic() + 60 * minutes
        for seed in range(first, first + seeds):
            for case in cases:
                if (case.name, seed) not in done and time.monotonic() < ends_s:
                    trial = naming.run(case, seed, budget)
                    append_record(path, trial)
                    _notes.print(naming_report.line(trial))
        trials = read_records(path, naming.Naming)
    except NetpipeError as error:
        raise click.ClickException(str(error)) from error
    for text in naming_report.table(trials):
        click.echo(text)
    sys.exit(0 if naming_report.meets_goal(trials) else 1)


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
def predicted(first: int, seeds: int, minutes: float, budget: float, path: Path) -> None:
    """Change pipelines drawn by lot as diagnose proposes: does what it predicts come?"""
    try:
        done = {one.seed for one in read_records(path, predicting.Predicting)}
        ends_s = time.monotonic() + 60 * minutes
        for seed in range(first, first + seeds):
            if seed not in done and time.monotonic() < ends_s:
                for trial in predicting.run(seed, budget):
                    append_record(path, trial)
                    _notes.print(predicting_report.line(trial))
        trials = read_records(path, predicting.Predicting)
    except NetpipeError as error:
        raise click.ClickException(str(error)) from error
    for text in predicting_report.table(trials):
        click.echo(text)
    sys.exit(0 if predicting_report.meets_goal(trials) else 1)


if __name__ == "__main__":
    main()
