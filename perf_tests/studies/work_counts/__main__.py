"""`python -m perf_tests.studies.work_counts`: count unchanged code, and planted changes.

`--unsteady N` compares each of `unsteady.py`'s loaders N times with itself.
"""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console

from netpipe.device.host import this_host
from netpipe.gate.outcomes import Outcome
from netpipe.gate.work_comparison import compare_work
from netpipe.git import git
from netpipe.jobs.parent import CHILD_COMMAND
from netpipe.jobs.targets import name_targets
from netpipe.results.work_profile import WorkProfile
from netpipe.work_counts.reproducible_counts import WorkRequest, count_work
from perf_tests.studies.faults.busy import busy_core
from perf_tests.studies.options import exit_on_signals
from perf_tests.studies.proportions import Proportion
from perf_tests.studies.records import append_record, read_records
from perf_tests.studies.work_counts.planted import CHANGES, PlantedChange, checkout_with

TARGET: Final = "fixtures/targets.py:large_loader"
_REQUEST: Final = WorkRequest(targets=name_targets(loader=TARGET))
UNCHANGED: Final = "unchanged"
UNSTEADY: Final = ("threads", "pipe", "unseeded")
_UNSTEADY_FILE: Final = "perf_tests/studies/work_counts/unsteady.py"
_USUAL_PROCESSES: Final = 2
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
        host: The processor and its cores; "" in old trials.
        processes: Those that counted this version; 0 where it is not known.
    """

    change: str
    commit: str
    conditions: str
    outcomes: dict[str, str]
    named: bool
    seconds: float
    host: str = ""
    processes: int = 0


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
    return Trial(UNCHANGED, _commit(), conditions, outcomes, is_equal, seconds, _host())


@cache
def _first_profile() -> WorkProfile:
    return count_work(CHILD_COMMAND, _REQUEST)


@cache
def _commit() -> str:
    return git(_ROOT, "rev-parse", "--short=12", "HEAD")


@cache
def _host() -> str:
    host = this_host()
    return f"{host.cpu}, {host.cores} cores"


def find_planted(change: PlantedChange, number: int) -> Trial:
    """Plant a change in a clone, and have `netpipe work --against HEAD` find it."""
    conditions = ("quiet", "busy core")[number % 2]
    with checkout_with(change, _ROOT) as clone:
        trial, reasons = _compare_with_head(change.name, clone, TARGET, conditions)
    named = change.cause in reasons.get(change.kind, "")
    return replace(trial, named=named)


def compare_unsteady(loader: str, number: int) -> Trial:
    """Compare a loader whose counts differ between processes with itself."""
    conditions = ("quiet", "busy core")[number % 2]
    trial, _ = _compare_with_head(loader, _ROOT, f"{_UNSTEADY_FILE}:{loader}", conditions)
    alarms = {"REGRESSED", "IMPROVED"} & {*trial.outcomes.values()}
    return replace(trial, named=not alarms)


def _compare_with_head(
    name: str, checkout: Path, target: str, conditions: str
) -> tuple[Trial, dict[str, str]]:
    """Return a trial of `netpipe work --against HEAD`, and the reason of each kind that rose."""
    command = [sys.executable, "-m", "netpipe", "work", target, "--against", "HEAD", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    with busy_core(at_random=True) if "busy" in conditions else nullcontext():
        started = time.monotonic()
        done = subprocess.run(
            command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
        seconds = time.monotonic() - started
    if not done.stdout:
        raise click.ClickException(f"{' '.join(command)} ended with code {done.returncode}")
    found: dict[str, Any] = json.loads(done.stdout)
    rows = found["comparisons"]
    outcomes = {row["kind"]: row["outcome"] for row in rows}
    trial = Trial(
        name, _commit(), conditions, outcomes, False, seconds, _host(), found["processes"]
    )
    return trial, {row["kind"]: row["reason"] for row in rows if row["outcome"] == "REGRESSED"}


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
    for loader in UNSTEADY:
        tried = [trial for trial in trials if trial.change == loader]
        if tried:
            yield ""
            yield _describe_unsteady(loader, tried)
    if unchanged:
        alarms = Proportion.of(["REGRESSED" in trial.outcomes.values() for trial in unchanged])
        yield ""
        yield (
            f"Unchanged code: {alarms.found} alarms in {alarms.total} comparisons, at most "
            f"{100 * alarms.interval[1]:.1f}% (95%); in {sum(trial.named for trial in unchanged)} "
            "every kind of work was PASS"
        )


def _describe_unsteady(loader: str, tried: Sequence[Trial]) -> str:
    outcomes = Counter(chain(*(trial.outcomes.values() for trial in tried)))
    counts = ", ".join(f"{outcome} {count}" for outcome, count in sorted(outcomes.items()))
    more = sum(trial.processes > _USUAL_PROCESSES for trial in tried)
    return (
        f"Loader `{loader}`, unchanged: {sum(not trial.named for trial in tried)} alarms in "
        f"{len(tried)} comparisons ({counts}); {more} took more than {_USUAL_PROCESSES} processes "
        f"of each version, at most {max(trial.processes for trial in tried)}; the longest "
        f"{max(trial.seconds for trial in tried):.0f} s"
    )


@click.command()
@click.option("--unchanged", "comparisons", type=int, default=200, show_default=True)
@click.option(
    "--planted", "each", type=int, default=20, show_default=True, help="Trials of each change."
)
@click.option(
    "--unsteady", "repeats", type=int, default=20, show_default=True, metavar="N",
    help="Comparisons of each loader whose counts differ between processes, with itself.",
)  # fmt: skip
@click.option("--trials", type=click.Path(path_type=Path), default=_KEPT, show_default=True)
def main(comparisons: int, each: int, repeats: int, trials: Path) -> None:
    """Run the trials that are missing from a file, and print its table."""
    exit_on_signals()
    done = read_records(trials, Trial)
    drawn = random.Random(len(done))
    for number in range(max(comparisons, each, repeats)):
        for change in CHANGES if number < each else ():
            if sum(trial.change == change.name for trial in done) <= number:
                _keep(find_planted(change, number), done, trials)
        for loader in UNSTEADY if number < repeats else ():
            if sum(trial.change == loader for trial in done) <= number:
                _keep(compare_unsteady(loader, number), done, trials)
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
