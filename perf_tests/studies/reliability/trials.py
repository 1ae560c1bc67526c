"""One trial: a command under a disturbance, and the damage that it leaves behind."""

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from uuid import uuid4

import psutil

from netpipe.git import git
from perf_tests.studies.reliability.commands import Command
from perf_tests.studies.reliability.disturbances import Disturbance, limit_disk, prepare_disk

_LIMIT_S: Final = 400.0
_LOG_CHARACTERS: Final = 3000
# Processes of a killed parent look for it every few seconds.
_ENDING_S: Final = 30.0
_AGE_S: Final = 3600.0
_MARK: Final = "NETPIPE_RELIABILITY_TRIAL"
_OURS_ANYWAY: Final = (".pytest_cache", "__pycache__", ".benchmarks")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Those of netpipe, 3 for inconclusive among them, and pytest's 4 for wrong usage.
_ORDERLY_CODES: Final = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class Trial:
    """What a disturbed command left behind.

    Attributes:
        commit: The commit that was tried; ends with "+" where the working tree differed from it.
        drawn: A random number from 0 to 1: the moment of a signal, as a part of the time that the
            command takes when it is left alone, or the room on a full disk.
        exit_codes: Of each copy; a negative number is the signal that ended it.
        problems: What must not be; none after a good trial.
        log: The end of the output where there are problems.
    """

    command: str
    disturbance: str
    commit: str
    drawn: float
    exit_codes: tuple[int, ...]
    problems: tuple[str, ...]
    log: str


def run(
    command: Command, disturbance: Disturbance, template: Path, undisturbed_s: float, seed: str
) -> Trial:
    """Run a command once under a disturbance, in a fresh copy of the project in `template`.

    The seed draws what is random. `undisturbed_s` is how long the command takes when it is left
    alone.
    """
    drawn = random.Random(seed).random()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(TemporaryDirectory(prefix="reliability-")))
        stack.enter_context(prepare_disk(disturbance, scratch))
        project, temporary = scratch / "project", scratch / "tmp"
        shutil.copytree(template, project)
        temporary.mkdir()
        limit_disk(disturbance, project, temporary, drawn)
        moment_s = drawn * undisturbed_s
        shm = Path(stack.enter_context(TemporaryDirectory(prefix="reliability-", dir="/dev/shm")))
        arguments = disturbance.wrap(command.arguments, shm)
        codes, log, survivors = _run_copies(arguments, disturbance, project, temporary, moment_s)
        if disturbance.sent is signal.SIGKILL:
            _run_next(command, project, temporary)
        problems = [
            *(f"process left: {words}" for words in survivors),
            *_find_bad_codes(codes, disturbance.sent),
            *_find_left(command, project, temporary),
            *(f"left: /dev/shm/{path.name}" for path in shm.iterdir()),
            *command.find_damage(project),
        ]
    if "Traceback (most recent call last)" in log or "INTERNALERROR" in log:
        problems.append("traceback")
    return Trial(
        command=command.name,
        disturbance=disturbance.name,
        commit=git(Path(), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"),
        drawn=round(drawn, 4),
        exit_codes=tuple(codes),
        problems=tuple(problems),
        log=log[-_LOG_CHARACTERS:] if problems else "",
    )


def time_undisturbed(command: Command, template: Path) -> float:
    """Return the seconds that a command takes when it is left alone."""
    with TemporaryDirectory(prefix="reliability-") as name:
        project, temporary = Path(name, "project"), Path(name, "tmp")
        shutil.copytree(template, project)
        temporary.mkdir()
        began_s = time.monotonic()
        _start(command.arguments, project, temporary, "").communicate(timeout=_LIMIT_S)
        return time.monotonic() - began_s


def _run_copies(
    arguments: Sequence[str], disturbance: Disturbance, project: Path, temporary: Path,
    moment_s: float,
) -> tuple[list[int], str, list[str]]:  # fmt: skip
    """Return the exit codes, all output, and the processes that stayed."""
    mark = uuid4().hex
    copies = [_start(arguments, project, temporary, mark) for _ in range(disturbance.copies)]
    try:
        if disturbance.sent is not None:
            _send(disturbance, copies[0], moment_s)
        logs = [copy.communicate(timeout=_LIMIT_S)[0] for copy in copies]
        survivors = _wait_for_end(mark)
    finally:
        for process in _find_marked(mark):
            with suppress(psutil.NoSuchProcess):
                process.kill()
    return [copy.wait() for copy in copies], "".join(logs), survivors


def _start(
    arguments: Sequence[str], project: Path, temporary: Path, mark: str
) -> "subprocess.Popen[str]":
    with _default_signals():
        return subprocess.Popen(
            arguments,
            cwd=project,
            env={**os.environ, "JAX_PLATFORMS": "cpu", "TMPDIR": str(temporary), _MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
            errors="replace",
        )


@contextmanager
def _default_signals() -> Iterator[None]:
    """Let processes start with the signals that a study ignores in the background, or under nohup.

    A signal may come before they could stop ignoring it themselves.
    """
    before = {each: signal.signal(each, signal.SIG_DFL) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _send(disturbance: Disturbance, copy: "subprocess.Popen[str]", moment_s: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        copy.wait(moment_s)
        return
    if disturbance.to_group:
        os.killpg(copy.pid, disturbance.sent or 0)
    else:
        os.kill(copy.pid, disturbance.sent or 0)


def _wait_for_end(mark: str) -> list[str]:
    """Return the command lines of processes that do not end by themselves."""
    _, alive = psutil.wait_procs(_find_marked(mark), timeout=_ENDING_S)
    survivors = []
    for process in alive:
        with suppress(psutil.NoSuchProcess):
            survivors.append(" ".join(process.cmdline())[:120])
    return survivors


def _find_marked(mark: str) -> list[psutil.Process]:
    """Return the processes whose environment has the mark of a trial."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.status() != psutil.STATUS_ZOMBIE and process.environ().get(_MARK) == mark:
                found.append(process)
    return found


def _run_next(command: Command, project: Path, temporary: Path) -> None:
    """Run the command again, an hour later as far as the left files can tell."""
    for path in (*temporary.iterdir(), *project.iterdir(), *(project / "baselines").glob("*/*")):
        if not path.is_symlink():
            os.utime(path, (time.time() - _AGE_S,) * 2)
    _start(command.arguments, project, temporary, "").communicate(timeout=_LIMIT_S)


def _find_bad_codes(codes: Sequence[int], sent: signal.Signals | None) -> Iterator[str]:
    allowed = {*_ORDERLY_CODES, *(() if sent is None else (-sent, 128 + sent))}
    for code in codes:
        if code not in allowed:
            yield f"exit code {code}"


def _find_left(command: Command, project: Path, temporary: Path) -> Iterator[str]:
    """Yield every file, folder and worktree that should not be there any more."""
    expected = {"conftest.py", "test_load.py", ".gitignore", ".git", "parquet", "out"}
    expected |= {*command.outputs, *_OURS_ANYWAY}
    yield from (f"left: {path.name}" for path in project.iterdir() if path.name not in expected)
    yield from (f"left: baselines/{path.name}" for path in project.glob("baselines/*/*")
                if path.suffix != ".json")  # fmt: skip
    yield from (f"left: tmp/{path.name}" for path in temporary.iterdir())
    worktrees = git(project, "worktree", "list", "--porcelain").count("worktree ")
    if worktrees > 1:
        yield f"left: {worktrees - 1} git worktrees"
