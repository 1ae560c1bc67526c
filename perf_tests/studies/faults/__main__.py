"""`python -m perf_tests.studies.faults`: run the catalogue and print the confusion matrix."""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from netpipe.errors import NetpipeError
from netpipe.files.whole_file import write_whole
from perf_tests.studies.faults import report
from perf_tests.studies.faults.busy import busy_core
from perf_tests.studies.faults.cases import Case
from perf_tests.studies.faults.matrix import count_rates
from perf_tests.studies.faults.trials import Trial, run
from perf_tests.studies.options import exit_on_signals, only_cases

_BUDGET_S = 5.0
_SEEDS = 1_000_000
_notes = Console(stderr=True, highlight=False, soft_wrap=True)


def _read_trials(_: click.Context, __: click.Parameter, files: Sequence[Path]) -> list[Trial]:
    try:
        trials = [
            trial
            for file in files
            for trial in report.parse_trials(json.loads(file.read_text(encoding="utf-8")), file)
        ]
    except (ValueError, NetpipeError) as error:
        raise click.BadParameter(str(error)) from error
    twice = [key for key, count in Counter((t.case, t.seed) for t in trials).items() if count > 1]
    if twice:
        case, seed = twice[0]
        raise click.BadParameter(f"a trial must be counted once; found {case} of seed {seed} twice")
    if files and not trials:
        raise click.BadParameter("the files must hold a trial; found none")
    return trials


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", type=int, help="Seed of the severities; the clock if omitted.")
@only_cases
@click.option(
    "--budget", type=click.FloatRange(min=0, min_open=True), default=_BUDGET_S,
    show_default=True, help="Seconds of rounds per case.",
)  # fmt: skip
@click.option("--busy", is_flag=True, help="Keep one core busy with another program.")
@click.option(
    "--repeat", type=click.IntRange(min=1), default=1, show_default=True,
    help="Runs of all cases, each with the next seed.",
)  # fmt: skip
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path),
    help="Write every trial to this file, as soon as it is done.",
)  # fmt: skip
@click.option(
    "--record", type=click.Path(file_okay=False, path_type=Path),
    help="Write the last measurement of each case to this folder.",
)  # fmt: skip
@click.option(
    "--merge", "merged", multiple=True, callback=_read_trials,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Run nothing: count the trials that --json wrote to this file. May be repeated.",
)  # fmt: skip
def main(
    seed: int | None,
    cases: Sequence[Case],
    budget: float,
    busy: bool,
    repeat: int,
    json_file: Path | None,
    record: Path | None,
    merged: Sequence[Trial],
) -> None:
    """Plant faults and healthy controls, and check that the harness distinguishes them.

    Inconclusive trials and blamed controls are measured once more in a fresh process,
    which decides. The exit code is 0 if no control is blamed, at least 95% of the decided faults
    are named correctly, none is called fine and at most 10% of all are inconclusive; 1 otherwise.
    """
    exit_on_signals()

    def keep() -> None:
        if json_file:
            _write(json_file, report.build_document(trials, budget_s=budget, busy=busy))

    trials = list(merged)
    if not trials:
        first = time.time_ns() % _SEEDS if seed is None else seed
        with busy_core() if busy else nullcontext():
            for trial in _run(cases, range(first, first + repeat), budget, record):
                trials.append(trial)
                keep()
    keep()
    click.echo(report.format_matrix(trials))
    for text in report.format_rates(count_rates(trials)):
        click.echo(text)
    sys.exit(0 if count_rates(trials).meets_goals else 1)


def _run(
    cases: Sequence[Case], seeds: Sequence[int], budget_s: float, record: Path | None
) -> Iterator[Trial]:
    for seed in seeds:
        _notes.print(f"seed {seed}, {len(cases)} cases")
        for number, case in enumerate(cases, 1):
            with _notes.status(f"{number} of {len(cases)}: {case.name}"):
                trial, measurement = run(case, seed, budget_s)
            _notes.print(report.format_trial(trial), markup=False)
            if record and measurement:
                _write(record / f"{case.name}.json", measurement.to_document())
            yield trial


def _write(path: Path, document: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(document, allow_nan=False), "--record")


if __name__ == "__main__":
    main()
