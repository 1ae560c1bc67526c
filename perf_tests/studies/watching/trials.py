"""One trial of each question about `netpipe.watch`."""

import json
import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from netpipe.device.host import this_host
from netpipe.git import git
from netpipe.verdict.kinds import VerdictKind
from netpipe.watching.logs import Log
from netpipe.watching.processes import judge_together, merge_recent
from netpipe.watching.window import Window
from perf_tests.studies.children import end_group, run_for_json
from perf_tests.studies.faults.busy import busy_core
from perf_tests.studies.faults.cases import Case
from perf_tests.studies.faults.catalogue import CASES
from perf_tests.studies.watching.training import BECOMES_SLOW, OF_A_HOST, STEADY, SYNCED, Asked

_TOLD: Final = {"healthy", "loader-bound", "jitter"}
# A passive look cannot tell contention from a healthy run.
_MAYBE_TOLD: Final = {*_TOLD, "contention"}

_FAULT_S: Final = 60.0
_WINDOW_S: Final = 10.0
_SLOWING_STEPS, _HEALTHY_STEPS, _HOST_STEPS = 2_000, 5_000, 400
_HOST_WINDOW_S: Final = 5.0
_KILLED_WINDOW_S: Final = 0.5
_SIMULATED_STEPS: Final = 5_000_000
_MAX_GROWTH_BYTES: Final = 5_000_000
_LIMIT_S: Final = 400.0
_BUFFERED: Final = 8  # batches that the loader and the step hold at most


@dataclass(frozen=True)
class Trial:
    """One training run that was watched, and what was wrong with the answer.

    Attributes:
        called: The kind of the verdict.
        problems: What was wrong; empty for a right or an inconclusive answer.
    """

    question: str
    case: str
    seed: int
    values: Mapping[str, float]
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


Answer = tuple[str, str, Sequence[str]]
"""The kind of the verdict, its message, and what is wrong."""


def told_cases() -> tuple[Case, ...]:
    """Return the cases whose verdicts a passive look can give.

    Loaders of the catalogue's loops that force a sync wait in the loop's thread, which cannot be
    told from slow workers; `SYNCED` has loaders that compute there.
    """
    told = (case for case in CASES if not case.finding and _TOLD.intersection(case.kinds))
    return *(case for case in told if _MAYBE_TOLD.issuperset(case.kinds)), *SYNCED


def run(question: str, case: Case, seed: int) -> Trial:
    """Ask a question once, with values of the case drawn from a seed."""
    began, started_s, host = datetime.now(UTC), time.monotonic(), this_host()
    values = case.draw(seed)
    with TemporaryDirectory(prefix="watching-") as folder:
        called, message, problems = QUESTIONS[question].ask(case, values, seed, Path(folder))
    return Trial(
        question=question,
        case=case.name,
        seed=seed,
        values=values,
        commit=git(Path(), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"),
        host=f"{host.cpu}, {host.cores} cores",
        began=began.isoformat(timespec="seconds"),
        duration_s=round(time.monotonic() - started_s, 1),
        called=called,
        message=message,
        problems=tuple(problems),
    )


def _start(asked: Asked) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, *asked.command()],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _train(*each: Asked) -> list[list[Window]]:
    """Train in one process or more at the same time; return the windows of each."""
    with ExitStack() as ending:
        started = [ending.enter_context(_start(asked)) for asked in each]
        for process in started:
            ending.callback(end_group, process)
        for process in started:
            _, said = process.communicate(timeout=_LIMIT_S)
            if process.returncode:
                raise RuntimeError(said[-2000:])
    return [[*Log(Path(asked.log)).read()] for asked in each]


def _tell_fault(case: Case, values: Mapping[str, float], _: int, folder: Path) -> Answer:
    """Judge the last windows, as `netpipe watch --once` does."""
    log = str(folder / "run.jsonl")
    (windows,) = _train(Asked(case.name, values, log, _WINDOW_S, seconds=_FAULT_S))
    verdict = merge_recent({"run": windows})["run"].verdict
    is_right = verdict.kind in (*case.kinds, VerdictKind.INCONCLUSIVE)
    wrong = [f"called {verdict.kind}"] * (not is_right)
    return verdict.kind, verdict.message, wrong


def _find_slowdown(case: Case, values: Mapping[str, float], _: int, folder: Path) -> Answer:
    log = str(folder / "run.jsonl")
    (windows,) = _train(Asked(case.name, values, log, _WINDOW_S, steps=_SLOWING_STEPS))
    at = values["at"]
    kinds = [window.verdict.kind for window in windows]
    planted = next(n for n, w in enumerate(windows) if w.batches_before + w.figures.batches > at)
    named = next((n for n, kind in enumerate(kinds) if kind == VerdictKind.LOADER_BOUND), None)
    problems = [f"called {w.verdict.kind} before" for w in windows[:planted] if _is_alarm(w)]
    if named is None or named > planted + 1:
        problems.append(f"planted in window {planted}, named in {named}")
    elif abs(windows[named].batches_before - at) > windows[named].figures.batches + _BUFFERED:
        problems.append(f"planted at batch {at}, named at {windows[named].batches_before}")
    return kinds[-1], ", ".join(kinds), problems


def _is_alarm(window: Window) -> bool:
    return window.verdict.severity == 2


def _stay_healthy(case: Case, values: Mapping[str, float], _: int, folder: Path) -> Answer:
    log = str(folder / "run.jsonl")
    with busy_core():
        (windows,) = _train(Asked(case.name, values, log, _WINDOW_S, steps=_HEALTHY_STEPS))
    problems = [f"window {n}: {w.verdict.kind}" for n, w in enumerate(windows) if _is_alarm(w)]
    verdict = merge_recent({"run": windows})["run"].verdict
    return verdict.kind, ", ".join(window.verdict.kind for window in windows), problems


def _name_host(case: Case, values: Mapping[str, float], seed: int, folder: Path) -> Answer:
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        port = opened.getsockname()[1]
    slow = seed % 2
    names = [f"process-{number}" for number in range(2)]
    found = _train(
        *(
            Asked(
                case.name,
                {**values, "load_ratio": values["load_ratio"] if number == slow else 0.2},
                str(folder / f"{name}.jsonl"),
                _HOST_WINDOW_S,
                steps=_HOST_STEPS,
                port=port,
                process=number,
            )
            for number, name in enumerate(names)
        )
    )
    verdict = judge_together(merge_recent(dict(zip(names, found, strict=True))))
    is_named = f"({names[slow]}) makes the others wait" in verdict.message
    is_right = is_named and verdict.kind == VerdictKind.LOADER_BOUND
    return verdict.kind, verdict.message, [f"{names[slow]} was not named"] * (not is_right)


def _survive_kill(case: Case, values: Mapping[str, float], seed: int, folder: Path) -> Answer:
    log = folder / "run.jsonl"
    process = _start(Asked(case.name, values, str(log), _KILLED_WINDOW_S, seconds=_LIMIT_S))
    with process:
        while not log.exists() and process.poll() is None:
            time.sleep(0.01)
        time.sleep(random.Random(seed).uniform(0, 4))
        killed_s = time.time()
        process.kill()
    lines, windows = log.read_bytes().count(b"\n"), [*Log(log).read()]
    lost_s = killed_s - windows[-1].ended_s
    problems = [f"{lines - len(windows)} lines cannot be read"] * (lines != len(windows))
    problems += [f"{lost_s:.2f} s are lost"] * (lost_s > 2 * _KILLED_WINDOW_S)
    return windows[-1].verdict.kind, f"{lines} lines, {lost_s:.2f} s lost", problems


def _stay_small(_: Case, __: Mapping[str, float], ___: int, folder: Path) -> Answer:
    words = ["-m", "perf_tests.studies.watching.memory", str(_SIMULATED_STEPS)]
    held = run_for_json([*words, str(folder / "run.jsonl")], {}, _LIMIT_S)
    grown = held[-1] - held[0]  # type: ignore[index]  # it prints a list
    problems = [f"{grown:,} bytes more"] * (grown > _MAX_GROWTH_BYTES)
    return VerdictKind.HEALTHY, f"{grown:,} bytes more; {json.dumps(held)}", problems


@dataclass(frozen=True)
class Question:
    """What the trials of a question are: the cases, the number of seeds, and how it is asked."""

    cases: tuple[Case, ...]
    seeds: int
    ask: Callable[[Case, Mapping[str, float], int, Path], Answer]


QUESTIONS: Final = {
    "faults": Question(told_cases(), 1, _tell_fault),
    "slowdown": Question((BECOMES_SLOW,), 20, _find_slowdown),
    "healthy": Question((STEADY,), 10, _stay_healthy),
    "hosts": Question((OF_A_HOST,), 10, _name_host),
    "kill": Question((STEADY,), 20, _survive_kill),
    "memory": Question((STEADY,), 1, _stay_small),
}
