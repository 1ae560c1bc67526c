"""Sessions: fresh child processes that measure once. Started, watched, ended and read here."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from math import inf
from multiprocessing import current_process
from pathlib import Path
from typing import Any, Final, NoReturn

import psutil

from netpipe.clock import MonotonicClock
from netpipe.device.emulated_names import checked_flops, parse_accelerator
from netpipe.errors import (
    HangError,
    MisuseError,
    NoSuchTestError,
    OutOfTimeError,
    SessionError,
)
from netpipe.results.measurement import Measurement, parse_measurement
from netpipe.session.processes import is_resource_tracker
from netpipe.session.progress import Follower, Tell

REQUEST_VARIABLE: Final = "NETPIPE_SESSION"
SCHEMA: Final = "netpipe.session/1"
OVERTIME_S: Final = 10.0  # beyond its budget, after which a measurement is ended
# Beyond the budget of --prove and of --try: workers start, and what hangs is ended.
LINT_OVERTIME_S: Final = 20.0

INTENTS: Final = ("throughput", "reproducible")

_FOLDER: Final = "netpipe-session-"
_TRACES: Final = "netpipe-trace-{}-*"  # as trace.py names them, which jax would come with
START_UP_S = 600.0  # to load the model, and to compile and warm up its step: minutes on a GPU
_IMPORT_S = 60.0  # before anything is watched
_FAREWELL_S = 5.0  # from a written result to the end of the process
_CLEANING_S = 5.0  # for killed processes to be gone, and their shared memory with them
_LOOK_S = 0.05
_LONGEST_SOCKET_FOLDER = 107 - len("/listener-12345678")  # unix(7)
_LOG_LINES = 25
_ERRORS: Final = {
    "misuse": MisuseError,
    "hang": HangError,
    "missing": NoSuchTestError,
    "failed": SessionError,
}


@dataclass(frozen=True)
class SessionRequest:
    """What a session is asked for; travels in the environment variable `NETPIPE_SESSION`.

    Attributes:
        kind: "measure", "lint", or another that its own command knows.
        result: The file to write the result to.
        accelerator: "auto" or an emulated one.
        budget_s: Seconds for the measured rounds.
        batch_limit_s: A loader that gives no batch for so long hangs.
        start_limit_s: Seconds until the first batch must be there, each time the loader starts;
            of a lint, until the loader is imported and made.
        flops_per_step: FLOPs of a step, for an emulated accelerator of a known peak; None: the step
            knows them.
        mfu: The part of that peak that a step reaches, above 0 and at most 1.
        intent: What a lint holds the pipeline to: "throughput" or "reproducible".
        silences: The reason of every rule that the lint is not to report, by the rule's name.
        proves: Whether the lint tries on elements what the structure does not decide.
        tries: Whether the lint measures what its proposals give.
        trace: The folder to keep a profiler's trace of some real steps in; "" for none.
        trace_name: What that is of, for its file's name beside the device's.
        most_s: Seconds after which the session is ended, whatever its own limits allow.
        parent: The process that waits for the result; None when nobody does.
        code_from: The checkout whose code is measured, where that matters: see `not_from`.
        not_from: Other checkouts of its repository, none of whose files may have been loaded.
    """

    kind: str
    result: str = ""
    accelerator: str = "auto"
    budget_s: float = 20.0
    batch_limit_s: float = 10.0
    start_limit_s: float = 600.0
    flops_per_step: float | None = None
    mfu: float = 0.4
    intent: str = "throughput"
    silences: Mapping[str, str] = field(default_factory=dict)
    proves: bool = False
    tries: bool = False
    trace: str = ""
    trace_name: str = ""
    most_s: float = inf
    parent: int | None = None
    code_from: str = ""
    not_from: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check what a user can have set.

        Raises:
            MisuseError: A value is outside its range.
        """
        object.__setattr__(self, "not_from", tuple(self.not_from))  # JSON has lists
        parse_accelerator(self.accelerator)
        for name in ("budget", "batch limit", "start limit"):
            limit_s: float = getattr(self, f"{name.replace(' ', '_')}_s")
            if not 0 < limit_s < inf:
                raise MisuseError(
                    f"the {name} must be above 0 seconds, and finite; found {limit_s:g}"
                )
        if self.flops_per_step is not None:
            checked_flops(self.flops_per_step)
        if not 0 < self.mfu <= 1:
            raise MisuseError(f"the MFU must be above 0, and at most 1; found {self.mfu:g}")
        if self.intent not in INTENTS:
            raise MisuseError(f"the intent must be {' or '.join(INTENTS)}; found {self.intent!r}")

    @property
    def limit_s(self) -> float:
        """Seconds after which the session is ended."""
        return min(self.most_s, self._own_limit_s)

    @property
    def _own_limit_s(self) -> float:
        if self.kind == "lint":
            tried = self.proves + self.tries  # each has the budget for itself
            return self.start_limit_s + tried * (self.budget_s + LINT_OVERTIME_S) + _FAREWELL_S
        # Loaders that end are started again in the rounds.
        around_s = _IMPORT_S + START_UP_S + 2 * self.start_limit_s + _FAREWELL_S
        return around_s + self.budget_s + OVERTIME_S


@dataclass(frozen=True)
class Place:
    """Where a session runs.

    Attributes:
        folder: Its working directory; None: that of this process.
        variables: What its environment has beside, or instead of, that of this process.
    """

    folder: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)


_HERE: Final = Place()


def write_result(
    request: SessionRequest, document: Mapping[str, object], *, is_whole: bool = True
) -> None:
    """Write what a session found, completely or not at all.

    Args:
        request: What the session was asked for.
        document: What it found.
        is_whole: Whether that is all; if not, it becomes the result only if nothing else is
            written before the session ends.
    """
    result = Path(request.result) if is_whole else partial_result(request)
    part = result.with_suffix(".part")
    part.write_text(json.dumps({"schema": SCHEMA, **document}, allow_nan=False), encoding="utf-8")
    part.replace(result)


def partial_result(request: SessionRequest) -> Path:
    """Return where a session keeps what it found, while it is not all yet."""
    return Path(request.result).with_name("partial.json")


def error_document(kind: str, message: str) -> dict[str, object]:
    """Return the result of a session that failed.

    Args:
        kind: "misuse", "hang", "missing" or "failed".
        message: What the user is told.
    """
    return {"error": {"kind": kind, "message": message}}


def request_here() -> SessionRequest | None:
    """Return what this process was asked for, None when it is no session."""
    text = os.environ.get(REQUEST_VARIABLE)
    return SessionRequest(**json.loads(text)) if text else None


def gather_sockets(request: SessionRequest) -> None:
    """Let the temporary files of Python's multiprocessing go with the session's folder.

    Its managers and its fork server keep sockets there, which killed processes leave behind. A
    folder whose name is too long for a socket's is not used.
    """
    folder = str(Path(request.result).parent)
    if len(folder) > _LONGEST_SOCKET_FOLDER:
        return
    current_process()._config["tempdir"] = folder  # type: ignore[attr-defined]  # noqa: SLF001


def measured(
    command: Sequence[str],
    request: SessionRequest,
    place: Place = _HERE,
    progress: Tell | None = None,
) -> Measurement:
    """Run a session that measures.

    Args:
        command: What the session's process runs.
        request: What it is asked for; `result` is chosen here.
        place: Where it runs.
        progress: Hears how far it is.

    Raises:
        MisuseError: The loader, the step or the loop is not what it must be.
        SessionError: The process crashed, hung or ran out of time.
    """
    return parse_measurement(_run(command, request, "measurement", place, progress), "session")


def linted(
    command: Sequence[str], request: SessionRequest, progress: Tell | None = None
) -> dict[str, Any]:
    """Run a session that reads a loader's graph; return its `netpipe.lint/1` document.

    Raises:
        MisuseError: The loader is not what it must be.
        SessionError: The process crashed, hung or ran out of time.
    """
    return _run(command, request, "lint", progress=progress)


def answered(
    command: Sequence[str], request: SessionRequest, progress: Tell | None = None
) -> dict[str, Any]:
    """Run a session whose result has its kind for a key; return what is under it.

    Raises:
        MisuseError: What it was given is not what it must be.
        SessionError: The process crashed, hung or ran out of time.
    """
    return _run(command, request, request.kind, progress=progress)


def _run(
    command: Sequence[str],
    request: SessionRequest,
    wanted: str,
    place: Place = _HERE,
    progress: Tell | None = None,
) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
        result, log = Path(folder, "result.json"), Path(folder, "log.txt")
        limit_s = request.limit_s
        asked = SessionRequest(**{**asdict(request), "result": str(result), "parent": os.getpid()})
        with log.open("wb") as stream:
            child = subprocess.Popen(
                command,
                cwd=place.folder,
                env=_environment({**os.environ, **place.variables}, asked),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                _await(child, result, limit_s, _look(asked, progress))
                ending = _ending(child.returncode, limit_s)
                is_cut_short = child.returncode is None and limit_s == request.most_s
            finally:
                _end(child, str(result))
        if not result.exists():
            result = partial_result(asked)
        if not result.exists():
            raise (OutOfTimeError if is_cut_short else SessionError)(
                f"the session {ending} without a result; its last lines:\n"
                f"{_last_lines(log)}{_innermost(stacks_file(asked))}"
            )
        return _read(result, wanted)


def _environment(base: Mapping[str, str], request: SessionRequest) -> dict[str, str]:
    environment = {
        name: value for name, value in base.items() if not name.startswith("PYTEST_XDIST")
    }
    environment[REQUEST_VARIABLE] = json.dumps(_asked(request))
    if parse_accelerator(request.accelerator) is not None:
        environment["JAX_PLATFORMS"] = "cpu"
    return environment


def _asked(request: SessionRequest) -> dict[str, object]:
    """Return what is asked for; another version of netpipe may not know what is not."""
    values = asdict(request)
    return {
        one.name: values[one.name] for one in fields(request) if values[one.name] != one.default
    }


def _look(request: SessionRequest, progress: Tell | None) -> Callable[[], None]:
    """Return what is done each time that a session is looked after."""
    if progress is None:
        return lambda: None
    return Follower(progress_file(request), progress, MonotonicClock()).look


def _await(
    child: "subprocess.Popen[bytes]", result: Path, limit_s: float, look: Callable[[], None]
) -> None:
    """Wait until the child has ended, or wrote its result a while ago, or is out of time."""
    deadline = time.monotonic() + limit_s
    wrote = False
    while time.monotonic() < deadline:
        if child.poll() is not None:
            return
        if not wrote and result.exists():
            wrote = True
            deadline = time.monotonic() + _FAREWELL_S
        look()
        time.sleep(_LOOK_S)


def _ending(returncode: int | None, limit_s: float) -> str:
    if returncode is None:
        return f"did not end within {limit_s:g} s and was killed"
    if returncode < 0:
        return f"was ended by {signal.Signals(-returncode).name}"
    return f"ended with code {returncode}"


def _end(child: "subprocess.Popen[bytes]", result: str) -> None:
    """Kill what is left of the child and of everything it started."""
    child.kill()
    trackers = _kill_followers(child.pid, result)
    child.wait()
    _, late = psutil.wait_procs(trackers, timeout=_CLEANING_S)
    for process in late:
        _kill(process)
    _remove_traces(child.pid)


def leave(request: SessionRequest) -> NoReturn:
    """End this session at once, and everything it started; its result is what was written.

    A session that nobody waits for takes its folder with it.
    """
    _kill_followers(os.getpid(), request.result)
    _remove_traces(os.getpid())
    folder = Path(request.result).parent
    if is_abandoned(request) and folder.name.startswith(_FOLDER):
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _remove_traces(pid: int) -> None:
    """Remove what a profiler that was killed has written."""
    for folder in Path(tempfile.gettempdir()).glob(_TRACES.format(pid)):
        shutil.rmtree(folder, ignore_errors=True)


def is_abandoned(request: SessionRequest) -> bool:
    """Return whether the process that waited for the result of this one is gone."""
    return request.parent not in (None, os.getppid())


def _kill_followers(leader: int, result: str) -> list[psutil.Process]:
    """Kill what the leader of a session started; return Python's resource trackers, which live.

    Those go last and by themselves: once nobody is left who could use the shared memory and the
    semaphores of the session, they remove them.
    """
    trackers = []
    for process in _session_members(leader, result):
        if is_resource_tracker(process.pid):
            trackers.append(process)
        elif process.pid != leader:
            _kill(process)
    return trackers


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)


def _session_members(leader: int, result: str) -> list[psutil.Process]:
    """Return the living processes that `leader` and what it started have started.

    They are in the session that it leads, its orphans among them; or they have left it (setsid),
    and still carry its request in their environment, which names a result of its own.
    """
    members = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and (
                os.getsid(process.pid) == leader
                or result in process.environ().get(REQUEST_VARIABLE, "")
            ):
                members.append(process)
        except (OSError, psutil.Error):
            continue
    return members


def _read(result: Path, wanted: str) -> dict[str, Any]:
    try:
        document = json.loads(result.read_text(encoding="utf-8"))
        if "error" not in document:
            return document[wanted]  # type: ignore[no-any-return]
        failure = _ERRORS[document["error"]["kind"]](document["error"]["message"])
    except (ValueError, KeyError, TypeError) as error:
        raise SessionError(f"the session's result must be a {SCHEMA}; found {error!r}") from error
    raise failure


def _last_lines(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return "\n".join(lines[-_LOG_LINES:])


def stacks_file(request: SessionRequest) -> Path:
    """Return where a session that is ended from below leaves the stacks of its threads."""
    return Path(request.result).with_name("stacks.txt")


def progress_file(request: SessionRequest) -> Path:
    """Return where a session says how far it is."""
    return Path(request.result).with_name("progress.json")


def _innermost(stacks: Path) -> str:
    """Return where the main thread stood, which comes last; nothing where no stacks were left."""
    if not stacks.exists():
        return ""
    _, thread, frames = stacks.read_text(encoding="utf-8", errors="replace").rpartition("Thread ")
    return "\n".join(["", *f"{thread}{frames}".splitlines()[:_LOG_LINES]])
