"""`python -m perf_tests.studies.gate_power.identical`: test unchanged code."""

import json
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from math import inf
from pathlib import Path
from statistics import median
from typing import Any, Final
from xml.etree import ElementTree

import click
import psutil
from rich.console import Console

from netpipe.errors import NetpipeError
from netpipe.files.temporary_folders import temporary_folder
from netpipe.gate.metrics import GATED
from netpipe.git import git
from perf_tests.studies.children import end_group
from perf_tests.studies.faults.busy import busy_core
from perf_tests.studies.options import exit_on_signals
from perf_tests.studies.proportions import Proportion
from perf_tests.studies.records import append_record, read_records

SUITE: Final = ("perf_tests", "--benchmark-compare")
_KEPT: Final = Path(__file__).with_name("identical.jsonl")
_LIMIT_S: Final = 1800.0
_LOG_CHARACTERS: Final = 6000
_notes = Console(stderr=True, markup=False, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class Figure:
    """One metric of a benchmark, as a run compared it.

    Attributes:
        benchmark: The name of its test.
        metric: The compared metric; "" if none was compared.
        worse_ratio: The metric over its baseline, above 1 if worse; None without a baseline.
    """

    benchmark: str
    metric: str
    outcome: str
    worse_ratio: float | None
    reason: str


@dataclass(frozen=True)
class SuiteRun:
    """One run of the performance tests in a fresh process.

    Attributes:
        commit: The checkout's commit; ends with "+" if the working tree differed from it.
        began: Start time as ISO 8601.
        is_busy: Whether another program loaded a core at random during the run.
        exit_code: pytest's exit code; None if it was ended because it took too long.
        duration_s: Wall time of the run.
        steal_fraction: Fraction of the CPU time that the hypervisor gave to other guests.
        failures: Each failed test, with the first line of its message.
        errors: Each test whose setup or teardown failed, likewise.
        figures: Every metric that was compared.
        sessions: The gated metrics of every session, and the CPU time of other programs.
        log: The end of pytest's output if its exit code was not 0.
    """

    commit: str
    began: str
    is_busy: bool
    exit_code: int | None
    duration_s: float
    steal_fraction: float
    failures: tuple[str, ...]
    errors: tuple[str, ...]
    figures: tuple[Figure, ...]
    sessions: tuple[dict[str, float | None], ...]
    log: str

    @property
    def raises_alarm(self) -> bool:
        """Whether any metric was REGRESSED."""
        return any(figure.outcome == "REGRESSED" for figure in self.figures)


def run(arguments: Sequence[str], *, is_busy: bool, limit_s: float = _LIMIT_S) -> SuiteRun:
    """Run pytest once in a fresh process, with another core loaded at random if busy."""
    began, started_s = datetime.now(UTC), time.monotonic()
    psutil.cpu_times_percent()  # the next reading is since this one
    load = busy_core(at_random=True) if is_busy else nullcontext()
    with temporary_folder("identical") as folder, load:
        junit, document = folder / "junit.xml", folder / "run.json"
        outputs = [f"--junitxml={junit}", f"--netpipe-json={document}"]
        exit_code, log = _run_pytest([*arguments, *outputs], limit_s)
        failures, errors = (tuple(_read_problems(junit, kind)) for kind in ("failure", "error"))
        found = json.loads(document.read_text("utf-8")) if document.exists() else {}
    return SuiteRun(
        commit=git(Path(), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"),
        began=began.isoformat(timespec="seconds"),
        is_busy=is_busy,
        exit_code=exit_code,
        duration_s=round(time.monotonic() - started_s, 1),
        steal_fraction=round(getattr(psutil.cpu_times_percent(), "steal", 0.0) / 100, 4),
        failures=failures,
        errors=errors,
        figures=tuple(map(_parse_figure, found.get("comparisons", ()))),
        sessions=tuple(map(_parse_session, found.get("measurements", ()))),
        log="" if exit_code == 0 else log[-_LOG_CHARACTERS:],
    )


def _run_pytest(arguments: Sequence[str], limit_s: float) -> tuple[int | None, str]:
    with subprocess.Popen(
        [sys.executable, "-m", "pytest", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
        errors="replace",
    ) as child:
        try:
            log, _ = child.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            return None, f"it took more than {limit_s:g} s\n{error}"
        finally:
            end_group(child)
        return child.returncode, log


def _read_problems(junit: Path, kind: str) -> Iterator[str]:
    if junit.exists():
        for case in ElementTree.parse(junit).iter("testcase"):
            for problem in case.iter(kind):
                message = problem.get("message", "").strip().partition("\n")[0]
                yield f"{case.get('name')}: {message}"


def _parse_figure(comparison: dict[str, Any]) -> Figure:
    return Figure(
        benchmark=comparison["benchmark"].rpartition("::")[2],
        metric=comparison["metric"],
        outcome=comparison["outcome"],
        worse_ratio=comparison["worse_ratio"],
        reason=comparison["reason"],
    )


def _parse_session(measurement: dict[str, Any]) -> dict[str, float | None]:
    names = [metric.name for metrics in GATED.values() for metric in metrics]
    values = {name: measurement.get(name) for name in (*names, "busy_elsewhere_fraction")}
    return {
        name: value["median"] if isinstance(value, dict) else value
        for name, value in values.items()
    }


def format_run(number: int, run: SuiteRun) -> str:
    """Describe a run in one line."""
    beside = "beside a busy program" if run.is_busy else "quiet"
    ended = "was ended" if run.exit_code is None else f"exit code {run.exit_code}"
    head = f"run {number}, {beside}: {ended} after {run.duration_s:.0f} s"
    notable = [
        f"{figure.outcome}: {figure.reason}"
        for figure in run.figures
        if figure.outcome not in ("PASS", "IMPROVED")
    ]
    return "; ".join(
        [head, f"steal {run.steal_fraction:.1%}", *notable, *run.failures, *run.errors]
    )


def format_table(runs: Sequence[SuiteRun]) -> Iterator[str]:
    """Format as Markdown the number of runs with each problem, and the range of each ratio."""
    yield "| | quiet | beside a busy program | all | all, 95% upper bound |"
    yield "|---|---|---|---|---|"
    groups = [[run for run in runs if not run.is_busy], [run for run in runs if run.is_busy], runs]
    for name, goes_wrong in (
        ("runs that did not exit with 0", lambda run: run.exit_code != 0),
        ("runs with a failed test", lambda run: bool(run.failures)),
        ("runs with an error", lambda run: bool(run.errors)),
        ("runs with an alarm", lambda run: run.raises_alarm),
    ):
        counts = [sum(map(goes_wrong, group)) for group in groups]
        cells = [f"{count} of {len(group)}" for count, group in zip(counts, groups, strict=True)]
        bound = Proportion.of([goes_wrong(run) for run in runs]).interval[1]
        yield f"| {name} | {' | '.join(cells)} | {bound:.1%} |"
    yield ""
    yield "| benchmark | metric | runs | lowest | median | highest | outcomes |"
    yield "|---|---|---|---|---|---|---|"
    yield from _ratio_rows(runs)
    yield ""
    commits = ", ".join(dict.fromkeys(run.commit for run in runs))
    steal = [run.steal_fraction for run in runs] or [0.0]
    minutes = sum(run.duration_s for run in runs) / 60
    yield (
        f"{len(runs)} runs in {minutes:.0f} minutes, steal {min(steal):.1%} to {max(steal):.1%}, "
        f"commits: {commits or 'none'}"
    )


def _ratio_rows(runs: Sequence[SuiteRun]) -> Iterator[str]:
    by_metric: dict[tuple[str, str], list[Figure]] = defaultdict(list)
    for figure in chain.from_iterable(run.figures for run in runs):
        by_metric[figure.benchmark, figure.metric].append(figure)
    for (benchmark, metric), figures in by_metric.items():
        ratios = sorted(figure.worse_ratio for figure in figures if figure.worse_ratio is not None)
        found = (ratios[0], median(ratios), ratios[-1]) if ratios else ()
        cells = [f"{ratio:.2f}" for ratio in found] or [""] * 3
        outcomes = sorted(Counter(figure.outcome for figure in figures).items())
        counts = ", ".join(f"{outcome} {count}" for outcome, count in outcomes)
        yield f"| {benchmark} | {metric} | {len(figures)} | {' | '.join(cells)} | {counts} |"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--runs", "wanted", type=click.IntRange(min=1), default=40, show_default=True,
    help="Number of runs that the file should hold.",
)  # fmt: skip
@click.option(
    "--minutes", type=click.FloatRange(min=0), default=inf,
    help="Minutes after which no run begins.",
)  # fmt: skip
@click.option(
    "--trials", "path", type=click.Path(dir_okay=False, path_type=Path),
    default=_KEPT, show_default=True, help="The file of runs.",
)  # fmt: skip
def main(wanted: int, minutes: float, path: Path) -> None:
    """Run the performance tests on unchanged code, every second run beside a busy program.

    Each run is kept in a file, one a line, as soon as it is done; the runs that the file holds are
    not repeated. --minutes 0 runs nothing and prints the table. The exit code is 0 when every run
    of the file exited with 0, without a failure, an error or an alarm, and 1 otherwise.
    """
    exit_on_signals()
    try:
        done = read_records(path, SuiteRun)
        ends_s = time.monotonic() + 60 * minutes
        while len(done) < wanted and time.monotonic() < ends_s:
            done.append(run(SUITE, is_busy=len(done) % 2 == 1))
            append_record(path, done[-1])
            _notes.print(format_run(len(done), done[-1]))
    except NetpipeError as error:
        raise click.ClickException(str(error)) from error
    for text in format_table(done):
        click.echo(text)
    bad = any(run.exit_code != 0 or run.failures or run.errors or run.raises_alarm for run in done)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
