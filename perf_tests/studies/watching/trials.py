"""One trial of each question about `netpipe.watch`."""

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from netpipe.device.host import this_host
from netpipe.errors import NetpipeError
from netpipe.git import git
from netpipe.verdict.kinds import VerdictKind
from netpipe.watching.logs import Log
from netpipe.watching.processes import judge_together, merge_recent
from netpipe.watching.window import Window
from perf_tests.studies.children import end_group, run_for_json
from perf_tests.studies.faults.busy import busy_core
from perf_tests.studies.faults.cases import Case, Values
from perf_tests.studies.faults.catalogue import CASES
from perf_tests.studies.watching.training import (
    BECOMES_SLOW,
    SLOW_HOST,
    STEADY,
    SYNCED,
    TrainingRequest,
)

FAILED: Final = "error"  # replaces a verdict if the training failed

_RECOGNISED: Final = {"healthy", "loader-bound", "jitter"}
# Contention cannot be told from a healthy run.
_ALLOWED: Final = {*_RECOGNISED, "contention"}
_FAULT_S: Final = 60.0
_WINDOW_S: Final = 10.0
_SLOWING_STEPS, _HEALTHY_STEPS, _HOST_STEPS = 2_000, 5_000, 400
_HOST_WINDOW_S: Final = 5.0
_KILLED_WINDOW_S: Final = 0.5
_SIMULATED_STEPS: Final = 5_000_000
_MAX_GROWTH_BYTES: Final = 5_000_000
_LIMIT_S: Final = 400.0


@dataclass(frozen=True)
class Trial:
    """A training run that was watched, and the mistakes in the answer.

    Attributes:
        called: The kind of the verdict; empty if the question has none.
        problems: The mistakes; empty for a right or an inconclusive answer.
    """

    question: str
    case: str
    seed: int
    values: Values
    commit: str
    host: str
    began: str
    duration_s: float
    called: str
    message: str
    problems: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        """Whether the answer was inconclusive."""
        return self.called == VerdictKind.INCONCLUSIVE and not self.problems


class Answer(NamedTuple):
    """The verdict of a trial, and its mistakes."""

    called: str
    message: str
    problems: Sequence[str]


def recognised_cases() -> tuple[Case, ...]:
    """Return the cases whose verdicts a watcher can give.

    The catalogue's loops that force a sync are left out: their loaders wait in the loop's thread,
    which cannot be told from slow workers. `SYNCED` has loaders that compute there.
    """
    named = (case for case in CASES if not case.finding and _RECOGNISED.intersection(case.kinds))
    return *(case for case in named if _ALLOWED.issuperset(case.kinds)), *SYNCED


def run(question: str, case: Case, seed: int) -> Trial:
    """Ask a question once, with values of the case drawn from a seed."""
    commit = git(Path(), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*")
    began, started_s, host = datetime.now(UTC), time.monotonic(), this_host()
    values = case.draw(seed)
    with TemporaryDirectory(prefix="watching-") as folder:
        try:
            answer = QUESTIONS[question].ask(case, values, seed, Path(folder))
        except (NetpipeError, subprocess.TimeoutExpired) as error:
            answer = Answer(FAILED, "", [str(error)])
    return Trial(
        question=question,
        case=case.name,
        seed=seed,
        values=values,
        commit=commit,
        host=f"{host.cpu}, {host.cores} cores",
        began=began.isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - started_s, 1),
        called=answer.called,
        message=answer.message,
        problems=tuple(answer.problems),
    )


@contextmanager
def _started(request: TrainingRequest) -> Iterator["subprocess.Popen[str]"]:
    """Start a training; end all its processes afterwards."""
    with subprocess.Popen(
        [sys.executable, *request.command()],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            end_group(process)


def _train(*requests: TrainingRequest) -> list[list[Window]]:
    """Train in one process or more at the same time; return the windows of each."""
    with ExitStack() as ending:
        processes = [ending.enter_context(_started(request)) for request in requests]
        for process in processes:
            _, log = process.communicate(timeout=_LIMIT_S)
            if process.returncode:
                raise NetpipeError(f"the training ended with {process.returncode}: {log[-2000:]}")
    return [[*Log(Path(request.log)).read()] for request in requests]


def _judge_recent(windows: Sequence[Window]) -> Answer:
    """Return the verdict of `netpipe watch --once`."""
    verdict = merge_recent({"run": windows})["run"].verdict
    return Answer(verdict.kind, verdict.message, [])


def _judge_fault(case: Case, values: Values, _: int, folder: Path) -> Answer:
    log = str(folder / "run.jsonl")
    (windows,) = _train(TrainingRequest(case.name, values, log, _WINDOW_S, seconds=_FAULT_S))
    answer = _judge_recent(windows)
    is_right = answer.called in (*case.kinds, VerdictKind.INCONCLUSIVE)
    return answer._replace(problems=[f"called {answer.called}"] * (not is_right))


def _find_slowdown(case: Case, values: Values, _: int, folder: Path) -> Answer:
    log = str(folder / "run.jsonl")
    (windows,) = _train(TrainingRequest(case.name, values, log, _WINDOW_S, steps=_SLOWING_STEPS))
    kinds = [window.verdict.kind for window in windows]
    ends = (window.batches_before + window.figures.batches for window in windows)
    planted = next(n for n, end in enumerate(ends) if end > values["at"])
    named = next((n for n, kind in enumerate(kinds) if kind == VerdictKind.LOADER_BOUND), None)
    problems = [f"called {w.verdict.kind} before" for w in windows[:planted] if _is_alarm(w)]
    if named is None or named > planted + 1:
        problems.append(f"planted in window {planted}, named in {named}")
    return Answer("", ", ".join(kinds), problems)


def _is_alarm(window: Window) -> bool:
    return window.verdict.severity == 2


def _stay_healthy(case: Case, values: Values, _: int, folder: Path) -> Answer:
    log = str(folder / "run.jsonl")
    with busy_core():
        (windows,) = _train(
            TrainingRequest(case.name, values, log, _WINDOW_S, steps=_HEALTHY_STEPS)
        )
    problems = [f"window {n}: {w.verdict.kind}" for n, w in enumerate(windows) if _is_alarm(w)]
    kinds = ", ".join(window.verdict.kind for window in windows)
    return _judge_recent(windows)._replace(message=kinds, problems=problems)


def _name_host(case: Case, values: Values, seed: int, folder: Path) -> Answer:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port = opened.getsockname()[1]
    slow = seed % 2
    names = [f"process-{number}" for number in range(2)]
    ratios = [values["load_ratio"] if number == slow else 0.2 for number in range(2)]
    requests = [
        TrainingRequest(
            case.name,
            {**values, "load_ratio": ratios[number]},
            str(folder / f"{name}.jsonl"),
            _HOST_WINDOW_S,
            steps=_HOST_STEPS,
            port=port,
            process=number,
        )
        for number, name in enumerate(names)
    ]
    found = dict(zip(names, _train(*requests), strict=True))
    verdict = judge_together(merge_recent(found))
    is_named = f"({names[slow]}) makes the others wait" in verdict.message
    is_right = is_named or verdict.kind == VerdictKind.INCONCLUSIVE
    return Answer(verdict.kind, verdict.message, [f"{names[slow]} was not named"] * (not is_right))


def _survive_kill(case: Case, values: Values, seed: int, folder: Path) -> Answer:
    log = folder / "run.jsonl"
    request = TrainingRequest(case.name, values, str(log), _KILLED_WINDOW_S, seconds=_LIMIT_S)
    with _started(request) as process:
        while not log.exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(random.Random(seed).uniform(0, 4))
        if process.poll() is not None:
            raise NetpipeError(f"the training ended with {process.returncode} before the kill")
        killed_s = time.time()
        process.kill()
        process.wait()
    lines, windows = log.read_bytes().count(b"\n"), [*Log(log).read()]
    lost_s = killed_s - windows[-1].ended_s
    problems = [f"{lines - len(windows)} lines cannot be read"] * (lines != len(windows))
    problems += [f"{lost_s:.2f} s are lost"] * (lost_s > 2 * _KILLED_WINDOW_S)
    return Answer("", f"{lines} lines, {lost_s:.2f} s lost", problems)


def _check_memory(_: Case, __: Values, ___: int, folder: Path) -> Answer:
    words = ["-m", "perf_tests.studies.watching.memory", str(_SIMULATED_STEPS)]
    held = run_for_json([*words, str(folder / "run.jsonl")], {}, _LIMIT_S)["held_bytes"]
    grown = held[-1] - held[0]
    problems = [f"{grown:,} bytes more"] * (grown > _MAX_GROWTH_BYTES)
    return Answer("", f"{grown:,} bytes more, from {held[0]:,}", problems)


@dataclass(frozen=True)
class Question:
    """The cases of a question, its number of seeds, and the function that asks it."""

    cases: tuple[Case, ...]
    seeds: int
    ask: Callable[[Case, Mapping[str, float], int, Path], Answer]


QUESTIONS: Final = {
    "faults": Question(recognised_cases(), 1, _judge_fault),
    "slowdown": Question((BECOMES_SLOW,), 20, _find_slowdown),
    "healthy": Question((STEADY,), 10, _stay_healthy),
    "hosts": Question((SLOW_HOST,), 10, _name_host),
    "kill": Question((STEADY,), 20, _survive_kill),
    "memory": Question((STEADY,), 1, _check_memory),
}
