"""`python -m perf_tests.studies.reliability`: disturb commands and look for damage."""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import takewhile
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click
from rich.console import Console

from perf_tests.studies.options import exit_on_signals
from perf_tests.studies.records import append_record, read_records
from perf_tests.studies.reliability.commands import COMMANDS, make_project
from perf_tests.studies.reliability.disturbances import DISTURBANCES
from perf_tests.studies.reliability.trials import Trial, run, time_undisturbed

_KEPT: Final = Path(__file__).with_name("trials.jsonl")
_notes = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)


def format_table(trials: Sequence[Trial]) -> Iterator[str]:
    """Format as Markdown the number of trials without damage for each command."""
    found: dict[tuple[str, str], list[Trial]] = defaultdict(list)
    for trial in trials:
        found[trial.disturbance, trial.command].append(trial)
    yield f"| | {' | '.join(COMMANDS)} |"
    yield f"|---|{'---|' * len(COMMANDS)}"
    for disturbance in DISTURBANCES:
        cells = (_cell(found[disturbance, name]) for name in COMMANDS)
        yield f"| {disturbance} | {' | '.join(cells)} |"
    yield ""
    for (disturbance, name), tried in found.items():
        for problem, count in Counter(p for trial in tried for p in trial.problems).items():
            yield f"- {name}, {disturbance}: {problem} ({count})"


def _cell(trials: Sequence[Trial]) -> str:
    if not trials:
        return "not tried"
    return f"{sum(not trial.problems for trial in trials)} of {len(trials)}"


def find_missing(
    trials: Sequence[Trial], commands: Sequence[str], kinds: Sequence[str]
) -> Iterator[tuple[str, str, int]]:
    """Yield the missing trials: command, disturbance, and the trial's number."""
    done = Counter((trial.command, trial.disturbance) for trial in trials)
    for number in range(max(DISTURBANCES[kind].trials for kind in kinds)):
        for kind in kinds:
            for name in commands:
                if done[name, kind] <= number < DISTURBANCES[kind].trials:
                    yield name, kind, number


def run_missing(missing: Iterable[tuple[str, str, int]], seed: int) -> Iterator[Trial]:
    """Run trials, each in a fresh copy of one project."""
    with TemporaryDirectory(prefix="reliability-") as scratch:
        template = Path(scratch, "project")
        make_project(template)
        time_command = cache(lambda name: time_undisturbed(COMMANDS[name], template))
        for name, kind, number in missing:
            drawn_from = f"{seed} {name} {kind} {number}"
            yield run(COMMANDS[name], DISTURBANCES[kind], template, time_command(name), drawn_from)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--only", "kinds", multiple=True, type=click.Choice(tuple(DISTURBANCES)),
    help="Only this disturbance. May be repeated.",
)  # fmt: skip
@click.option(
    "--command", "commands", multiple=True, type=click.Choice(tuple(COMMANDS)),
    help="Only this command. May be repeated.",
)  # fmt: skip
@click.option(
    "--minutes", type=click.FloatRange(min=0), default=inf,
    help="Minutes after which no trial begins.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="Seed for the moments of signals.")
@click.option(
    "--trials", "path", type=click.Path(dir_okay=False, path_type=Path),
    default=_KEPT, show_default=True, help="The file of trials.",
)  # fmt: skip
def main(
    kinds: tuple[str, ...], commands: tuple[str, ...], minutes: float, seed: int, path: Path
) -> None:
    """Kill commands at random moments, starve them, run two at once, and look for damage.

    Each trial is kept in a file as soon as it is done; those that the file holds are not repeated.
    Disturbances that need mounts are skipped if this user may not mount. --minutes 0 runs
    nothing and prints the table. The exit code is 1 when a trial of the file found damage.
    """
    exit_on_signals()
    done = read_records(path, Trial)
    if minutes:
        chosen = kinds or tuple(name for name, kind in DISTURBANCES.items() if kind.is_possible)
        missing = list(find_missing(done, commands or tuple(COMMANDS), chosen))
        ends_s = time.monotonic() + 60 * minutes
        in_time = takewhile(lambda _: time.monotonic() < ends_s, missing)
        for trial in run_missing(in_time, seed):
            append_record(path, trial)
            done.append(trial)
            ended = "; ".join(trial.problems) or "fine"
            _notes.print(f"{trial.command}, {trial.disturbance}: {trial.exit_codes} {ended}")
    for line in format_table(done):
        click.echo(line)
    sys.exit(1 if any(trial.problems for trial in done) else 0)


if __name__ == "__main__":
    main()
