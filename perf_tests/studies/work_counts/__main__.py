"""`python -m perf_tests.studies.work_counts`: count unchanged code, and planted changes."""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from netpipe.gate.outcomes import Outcome
from netpipe.gate.work_comparison import compare_work
from netpipe.git import git
from netpipe.jobs.parent import CHILD_COMMAND
from netpipe.jobs.targets import name_targets
from netpipe.results.work_profile import WorkProfile
from netpipe.work_counts.counting import WorkRequest, count_work
from perf_tests.studies.faults.busy import busy_core
from perf_tests.studies.options import exit_on_signals
from perf_tests.studies.proportions import Proportion
from perf_tests.studies.records import append_record, read_records
from perf_tests.studies.work_counts.planted import CHANGES, PlantedChange, checkout_with

TARGET: Final = "fixtures/targets.py:gpu_loader"
_REQUEST: Final = WorkRequest(targets=name_targets(loader=TARGET))
UNCHANGED: Final = "unchanged"
_KEPT: Final = Path(__file__).with_name("trials.jsonl")
_ROOT: Final = Path(__file__).parents[3]
_MAX_SEED: Final = 2**32 - 1
_notes = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Trial:
    """One comparison.

    Attributes:
        change: The name of what was planted, or `UNCHANGED`.
        conditions: The load and the cores of the machine.
        outcomes: The outcome of each kind of work.
        named: Whether the reason names the cause; for unchanged code, whether nothing is named.
        seconds: Duration of the command; for unchanged code, of counting one side.
    """

    change: str
    commit: str
    conditions: str
    outcomes: dict[str, str]
    named: bool
    seconds: float


def compare_unchanged(number: int, drawn: random.Random) -> Trial:
    """Count again, every other time on a busy machine or on one core, and compare."""
    conditions = ("quiet", "busy core", "one core", "busy core, one core")[number % 4]
    seeds = [str(drawn.randint(0, _MAX_SEED)) for _ in range(2)]
    cores = os.sched_getaffinity(0)
    before = _first_profile()
    with ExitStack() as stack:
        if "busy" in conditions:
            stack.enter_context(busy_core(at_random=True))
        if "one" in conditions:
            stack.callback(os.sched_setaffinity, 0, cores)
            os.sched_setaffinity(0, {min(cores)})
        started = time.monotonic()
        now = count_work(CHILD_COMMAND, _REQUEST, hash_seeds=seeds)
        seconds = time.monotonic() - started
    compared = compare_work(now, before)
    outcomes = {found.metric: found.outcome.value for found in compared}
    is_equal = all(found.outcome is Outcome.PASS for found in compared)
    return Trial(UNCHANGED, _commit(), conditions, outcomes, is_equal, seconds)


@cache
def _first_profile() -> WorkProfile:
    return count_work(CHILD_COMMAND, _REQUEST)


@cache
def _commit() -> str:
    return git(_ROOT, "rev-parse", "--short=12", "HEAD")


def find_planted(change: PlantedChange, number: int) -> Trial:
    """Plant a change in a clone, and have `netpipe work --against HEAD` find it."""
    conditions = ("quiet", "busy core")[number % 2]
    with ExitStack() as stack:
        clone = stack.enter_context(checkout_with(change, _ROOT))
        if "busy" in conditions:
            stack.enter_context(busy_core(at_random=True))
        command = [sys.executable, "-m", "netpipe", "work", TARGET, "--against", "HEAD", "--json"]
        environment = {**os.environ, "PYTHONPATH": str(clone)}
        started = time.monotonic()
        done = subprocess.run(
            command, cwd=clone, env=environment, capture_output=True, text=True, check=False
        )
        seconds = time.monotonic() - started
    rows = json.loads(done.stdout)["comparisons"] if done.stdout else []
    reasons = {row["kind"]: row["reason"] for row in rows if row["outcome"] == "REGRESSED"}
    outcomes = {row["kind"]: row["outcome"] for row in rows}
    named = change.cause in reasons.get(change.kind, "")
    return Trial(change.name, _commit(), conditions, outcomes, named, seconds)


def format_table(trials: Sequence[Trial]) -> Iterator[str]:
    """Write the trials as Markdown."""
    unchanged = [trial for trial in trials if trial.change == UNCHANGED]
    yield "| planted | found and named | longest |"
    yield "|---|--:|--:|"
    for change in CHANGES:
        tried = [trial for trial in trials if trial.change == change.name]
        if tried:
            named, longest_s = sum(trial.named for trial in tried), max(t.seconds for t in tried)
            yield f"| {change.name} | {named} of {len(tried)} | {longest_s:.0f} s |"
    if unchanged:
        alarms = Proportion.of(["REGRESSED" in trial.outcomes.values() for trial in unchanged])
        yield ""
        yield (
            f"Unchanged code: {alarms.found} alarms in {alarms.total} comparisons, at most "
            f"{100 * alarms.interval[1]:.1f}% (95%); in {sum(trial.named for trial in unchanged)} "
            "every kind of work was PASS"
        )


@click.command()
@click.option("--unchanged", "comparisons", type=int, default=200, show_default=True)
@click.option(
    "--planted", "each", type=int, default=20, show_default=True, help="Trials of each change."
)
@click.option("--trials", type=click.Path(path_type=Path), default=_KEPT, show_default=True)
def main(comparisons: int, each: int, trials: Path) -> None:
    """Run the trials that are missing from a file, and print its table."""
    exit_on_signals()
    done = read_records(trials, Trial)
    drawn = random.Random(len(done))
    for number in range(max(comparisons, each)):
        for change in CHANGES if number < each else ():
            if sum(trial.change == change.name for trial in done) <= number:
                _keep(find_planted(change, number), done, trials)
        if sum(t.change == UNCHANGED for t in done) <= number < comparisons:
            _keep(compare_unchanged(number, drawn), done, trials)
    for line in format_table(done):
        click.echo(line)


def _keep(trial: Trial, done: list[Trial], path: Path) -> None:
    done.append(replace(trial, seconds=round(trial.seconds, 2)))
    append_record(path, done[-1])
    _notes.print(f"{trial.change}, {trial.conditions}: {'right' if trial.named else 'WRONG'}")


if __name__ == "__main__":
    main()
