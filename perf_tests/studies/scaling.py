"""`python -m perf_tests.studies.scaling DATA`: kill multi-process trainings at random.

The sequences of every step are compared with an undisturbed training in one process.
"""

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import click
from rich.console import Console

from perf_tests.studies.options import exit_on_signals
from perf_tests.studies.records import append_record, read_records
from tests.workload.trainer import training_process

_HOSTS = (1, 2, 3, 8)
_KILLED_HOSTS = (1, 2, 3)
_STEPS_UNTIL_KILL = 6
_STEPS_OF_ALL = 20
_POLL_S = 0.01
_LIMIT_S = 300.0

_notes = Console(stderr=True)


@dataclass(frozen=True)
class Trial:
    """A run of a training.

    Attributes:
        hosts: Number of processes.
        workers: Workers per process.
        was_killed: Whether all were killed, at a random moment.
        first_step: The first step of the run.
        compared_steps: Steps whose sequences all processes reported.
        problems: Differences from the undisturbed training.
        duration_s: Wall seconds of the run.
    """

    hosts: int
    workers: int
    was_killed: bool
    first_step: int
    compared_steps: int
    problems: tuple[str, ...]
    duration_s: float


class Training:
    """A training in a folder, which resumes from its last state when started again."""

    def __init__(self, data: Path, folder: Path) -> None:
        self._data = data
        self._folder = folder
        folder.mkdir()

    @contextmanager
    def _started(self, hosts: int, workers: int, end: int) -> Iterator[list[Path]]:
        """Start all processes; yield the files in which they report their steps."""
        with socket.socket() as opened:
            opened.bind(("127.0.0.1", 0))
            port = opened.getsockname()[1]
        reports = [self._folder / f"steps-{number}" for number in range(hosts)]
        script = str(training_process.__file__)
        self.processes = []
        for number, path in enumerate(reports):
            words = [port, hosts, number, self._data, self._folder, end, workers]
            with path.open("w") as stdout, path.with_suffix(".errors").open("w") as stderr:
                command = [sys.executable, script, *map(str, words)]
                self.processes.append(
                    subprocess.Popen(
                        command, stdout=stdout, stderr=stderr, start_new_session=True,
                        env={**os.environ, "JAX_PLATFORMS": "cpu"},
                    )
                )  # fmt: skip
        try:
            yield reports
        finally:
            for process in self.processes:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()

    def run(
        self, hosts: int, workers: int, end: int, kill_after_s: float | None = None
    ) -> "Reports":
        """Run until a step; with `kill_after_s`, kill all processes that long after it.

        Raises:
            RuntimeError: A process failed, or did not reach the step in time.
        """
        began_s = time.monotonic()
        last = end if kill_after_s is None else sys.maxsize
        with self._started(hosts, workers, last) as reports:
            while not self._is_there(reports, end - 1, waits_for_exit=kill_after_s is None):
                if time.monotonic() - began_s > _LIMIT_S:
                    raise RuntimeError(f"no step {end - 1} within {_LIMIT_S:g} s")
                time.sleep(_POLL_S)
            time.sleep(kill_after_s or 0.0)
        return Reports([_read_steps(path) for path in reports], time.monotonic() - began_s)

    def _is_there(self, reports: list[Path], step: int, *, waits_for_exit: bool) -> bool:
        codes = [process.poll() for process in self.processes]
        if any(codes):
            errors = reports[0].with_suffix(".errors").read_text()[-2000:]
            raise RuntimeError(
                f"a process ended with code {max(map(abs, filter(None, codes)))}: {errors}"
            )
        return codes == [0] * len(codes) if waits_for_exit else step in _read_steps(reports[0])


def _read_steps(path: Path) -> dict[int, list[str]]:
    """Return the sequences of each reported step; the last line may be cut off."""
    steps = {}
    for line in path.read_text().splitlines():
        if line.startswith("{") and line.endswith("}") and "step" in (found := json.loads(line)):
            steps[found["step"]] = found["rows"]
    return steps


@dataclass(frozen=True)
class Reports:
    """The sequences of each step, by process."""

    by_host: list[dict[int, list[str]]]
    duration_s: float

    def compare(self, expected: Mapping[int, list[str]], first: int) -> tuple[int, list[str]]:
        """Return the number of steps that all processes reported, and the differences."""
        steps: dict[int, list[str]] = defaultdict(list)
        hosts: dict[int, int] = defaultdict(int)
        for reported in self.by_host:
            for step, rows in reported.items():
                steps[step] += rows
                hosts[step] += 1
        whole = [step for step, count in hosts.items() if count == len(self.by_host)]
        problems = [
            f"step {step} has other sequences"
            for step in steps
            if (set(steps[step]) - set(expected[step]))
            or (step in whole and sorted(steps[step]) != sorted(expected[step]))
        ]
        begun = min(steps)
        # The kill may come just before or after the state of a step is saved.
        if begun not in (first, first + 1):
            problems.append(f"began with step {begun} instead of {first} or {first + 1}")
        if sorted(steps) != list(range(begun, max(steps) + 1)):
            problems.append("skipped a step")
        return len(whole), problems


def run_kills(data: Path, scratch: Path, kills: int, seed: int) -> Iterator[Trial]:
    """Kill a training `kills` times; each run resumes where the last one was killed."""
    drawn = random.Random(seed)
    margin = 50 * _STEPS_UNTIL_KILL  # Steps continue until the signal arrives.
    expected = _run_undisturbed(data, scratch, kills * _STEPS_UNTIL_KILL + margin)
    training = Training(data, scratch / "killed")
    # One process decides the packing, so that any number of processes can resume.
    first = max(training.run(1, 0, 1).by_host[0])
    for _ in range(kills):
        hosts, workers = drawn.choice(_KILLED_HOSTS), drawn.randrange(2)
        end = first + drawn.randrange(2, _STEPS_UNTIL_KILL)
        reported = training.run(hosts, workers, end, kill_after_s=drawn.uniform(0, 0.05))
        compared, problems = reported.compare(expected, first)
        yield Trial(hosts, workers, True, first, compared, tuple(problems), reported.duration_s)
        first = max(reported.by_host[0])


def run_all_hosts(data: Path, scratch: Path) -> Iterator[Trial]:
    """Train in each number of processes from one state, undisturbed."""
    expected = _run_undisturbed(data, scratch, _STEPS_OF_ALL)
    for hosts in _HOSTS:
        training = Training(data, scratch / f"hosts-{hosts}")
        training.run(1, 0, 1)
        reported = training.run(hosts, 1, _STEPS_OF_ALL)
        compared, problems = reported.compare(expected, 0)
        yield Trial(hosts, 1, False, 0, compared, tuple(problems), reported.duration_s)


def _run_undisturbed(data: Path, scratch: Path, steps: int) -> dict[int, list[str]]:
    [expected] = Training(data, scratch / f"undisturbed-{steps}").run(1, 0, steps).by_host
    return expected


def format_table(trials: list[Trial]) -> Iterator[str]:
    """Yield a Markdown table with the number of runs, and of runs that differed."""
    yield "| processes | killed | runs | steps compared | with a difference | seconds, median |"
    yield "|--:|---|--:|--:|--:|--:|"
    for hosts, was_killed in sorted({(each.hosts, each.was_killed) for each in trials}):
        alike = [each for each in trials if (each.hosts, each.was_killed) == (hosts, was_killed)]
        compared = sum(each.compared_steps for each in alike)
        wrong = sum(bool(each.problems) for each in alike)
        seconds = median(each.duration_s for each in alike)
        killed = "at random" if was_killed else "no"
        yield f"| {hosts} | {killed} | {len(alike)} | {compared} | {wrong} | {seconds:.0f} |"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("data", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--kills", type=click.IntRange(min=0), default=50, show_default=True)
@click.option(
    "--seed", default=0, show_default=True, help="Seed for the processes and the moments."
)
@click.option(
    "--trials", "path", type=click.Path(dir_okay=False, path_type=Path),
    default=Path(__file__).with_suffix(".jsonl"), show_default=True, help="The file of trials.",
)  # fmt: skip
def main(data: Path, kills: int, seed: int, path: Path) -> None:
    """Train in 1 to 8 processes on DATA, kill trainings at random moments, and resume them.

    Each run is kept in a file as soon as it is done; only missing kills are made. The exit code is
    1 if a run in the file saw other sequences than the undisturbed training.
    """
    exit_on_signals()
    done = read_records(path, Trial)
    missing = kills - sum(trial.was_killed for trial in done)
    with TemporaryDirectory(prefix="scaling-") as folder:
        scratch = Path(folder)
        if all(trial.was_killed for trial in done):
            _keep(path, done, run_all_hosts(data, scratch))
        if missing > 0:
            _keep(path, done, run_kills(data, scratch, missing, seed + len(done)))
    for line in format_table(done):
        Console(soft_wrap=True).print(line)
    sys.exit(any(trial.problems for trial in done))


def _keep(path: Path, done: list[Trial], trials: Iterator[Trial]) -> None:
    for trial in trials:
        append_record(path, trial)
        done.append(trial)
        _notes.print(f"{trial.hosts} processes: {'; '.join(trial.problems) or 'as expected'}")


if __name__ == "__main__":
    main()
