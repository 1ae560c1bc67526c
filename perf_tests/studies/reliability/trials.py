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
# A session checks every few seconds whether its parent is gone.
_ENDING_S: Final = 30.0
_MARK: Final = "NETPIPE_RELIABILITY_TRIAL"
_CACHES: Final = (".pytest_cache", "__pycache__", ".benchmarks")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# netpipe's exit codes, with 3 for inconclusive, and pytest's 4 for wrong usage.
_ORDERLY_CODES: Final = (0, 1, 2, 3, 4)
_FINISHED_CODES: Final = (0, 3)
# A recording may be inconclusive on a busy machine, which counts as a failure.
_JUDGED_CODES: Final = (0, 1, 3)


@dataclass(frozen=True)
class Trial:
    """The outcome of one disturbed command.

    Attributes:
        commit: The commit that was tried; ends with "+" if the working tree differed from it.
        drawn: A random number from 0 to 1: the moment of a signal, as a fraction of the time that
            the command takes when it is left alone, or the room on a full disk.
        exit_codes: One per copy; a negative number is the signal that ended it.
        problems: Damage that was found; empty after a good trial.
        log: The end of the output, if there are problems.
    """

    command: str
    disturbance: str
    commit: str
    drawn: float
    exit_codes: tuple[int, ...]
    problems: tuple[str, ...]
    log: str


@dataclass(frozen=True)
class _Place:
    """The folders and files of a trial.

    Attributes:
        disk: The folder that a disturbance of the disk affects.
        other_temporary: For temporary files if `temporary` cannot be written to.
        log: The output of all runs.
    """

    disk: Path
    other_temporary: Path
    log: Path

    @property
    def project(self) -> Path:
        return self.disk / "project"

    @property
    def temporary(self) -> Path:
        return self.disk / "tmp"


_UNDISTURBED: Final = Disturbance("undisturbed", 0)


def run(
    command: Command, disturbance: Disturbance, template: Path, undisturbed_s: float, seed: str
) -> Trial:
    """Run a command once under a disturbance, in a fresh copy of the project in `template`.

    The seed draws what is random. `undisturbed_s` is how long the command takes when it is left
    alone.
    """
    drawn = random.Random(seed).random()
    with ExitStack() as stack:
        place = _make_place(Path(stack.enter_context(TemporaryDirectory(prefix="reliability-"))))
        stack.enter_context(prepare_disk(disturbance, place.disk))
        _fill_place(place, template)
        limit_disk(disturbance, place.project, place.temporary, drawn)
        shm = Path(stack.enter_context(TemporaryDirectory(prefix="reliability-", dir="/dev/shm")))
        arguments = disturbance.wrap(command.arguments, shm)
        codes, problems = _run_copies(arguments, disturbance, place, drawn * undisturbed_s)
        problems += _find_bad_codes(codes, disturbance.sent)
        if disturbance.sent is signal.SIGKILL:
            next_codes, next_problems = _run_copies(command.arguments, _UNDISTURBED, place, 0)
            problems += (f"the next run: {problem}" for problem in next_problems)
            problems += (f"the next run: exit code {code}" for code in next_codes
                         if code not in _JUDGED_CODES)  # fmt: skip
        problems += _find_left(command, place)
        problems += (f"left: /dev/shm/{path.name}" for path in shm.iterdir())
        problems += command.find_damage(place.project)
        log = place.log.read_text("utf-8", errors="replace")
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
    """Return the seconds that a command takes when it is left alone.

    Raises:
        RuntimeError: It failed, or did not write its outputs.
    """
    with TemporaryDirectory(prefix="reliability-") as name:
        place = _make_place(Path(name))
        _fill_place(place, template)
        began_s = time.monotonic()
        codes, problems = _run_copies(command.arguments, _UNDISTURBED, place, 0)
        took_s = time.monotonic() - began_s
        absent = [output for output in command.outputs if not (place.project / output).exists()]
        if problems or absent or codes[0] not in _FINISHED_CODES:
            log = place.log.read_text("utf-8", errors="replace")
            raise RuntimeError(f"{command.name}: {codes}, {problems}, no {absent}\n{log}")
        return took_s


def _make_place(scratch: Path) -> _Place:
    place = _Place(scratch / "disk", scratch / "tmp", scratch / "log.txt")
    place.disk.mkdir()
    place.other_temporary.mkdir()
    return place


def _fill_place(place: _Place, template: Path) -> None:
    shutil.copytree(template, place.project)
    place.temporary.mkdir()


def _run_copies(
    arguments: Sequence[str], disturbance: Disturbance, place: _Place, moment_s: float
) -> tuple[list[int], list[str]]:
    """Return the exit codes, and the processes that did not end in time."""
    mark = uuid4().hex
    copies = [_start(arguments, place, mark) for _ in range(disturbance.copies)]
    problems = []
    try:
        if disturbance.sent is not None:
            _send(disturbance, copies[0], moment_s)
        ends_s = time.monotonic() + _LIMIT_S
        for copy in copies:
            with suppress(subprocess.TimeoutExpired):
                copy.wait(max(0.0, ends_s - time.monotonic()))
        problems += ["did not end" for copy in copies if copy.poll() is None]
        problems += [f"process left: {words}" for words in _wait_for_end(mark)]
    finally:
        for process in _find_marked(mark):
            with suppress(psutil.NoSuchProcess):
                process.kill()
    return [copy.wait() for copy in copies], problems


def _start(arguments: Sequence[str], place: _Place, mark: str) -> "subprocess.Popen[bytes]":
    folders = {"TMPDIR": str(place.temporary), "TEMP": str(place.other_temporary)}
    with _default_signals(), place.log.open("ab") as log:
        return subprocess.Popen(
            arguments,
            cwd=place.project,
            env={**os.environ, **folders, "JAX_PLATFORMS": "cpu", _MARK: mark},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


@contextmanager
def _default_signals() -> Iterator[None]:
    """Start processes with the default dispositions of signals.

    They would inherit ignored signals from a study in the background or under nohup, and a signal
    may arrive before they can change that themselves.
    """
    before = {each: signal.signal(each, signal.SIG_DFL) for each in _SIGNALS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _send(disturbance: Disturbance, copy: "subprocess.Popen[bytes]", moment_s: float) -> None:
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


def _find_bad_codes(codes: Sequence[int], sent: signal.Signals | None) -> Iterator[str]:
    # A command that has just started is ended by the signal itself.
    allowed = _ORDERLY_CODES if sent is None else (*_FINISHED_CODES, 128 + sent, -sent)
    for code in codes:
        if code not in allowed:
            yield f"exit code {code}"


def _find_left(command: Command, place: _Place) -> Iterator[str]:
    """Yield every leftover file, folder and worktree."""
    expected = {"conftest.py", "test_load.py", ".gitignore", ".git", "parquet", "out"}
    expected |= {*command.outputs, *_CACHES}
    yield from (
        f"left: {path.name}" for path in place.project.iterdir() if path.name not in expected
    )
    yield from (f"left: baselines/{path.name}" for path in place.project.glob("baselines/*/*")
                if path.suffix != ".json")  # fmt: skip
    for folder in (place.temporary, place.other_temporary):
        yield from (f"left: tmp/{path.name}" for path in folder.iterdir())
    worktrees = git(place.project, "worktree", "list", "--porcelain").count("worktree ")
    if worktrees > 1:
        yield f"left: {worktrees - 1} git worktrees"
