"""The parent's side of a session: start its process, follow its progress, read its result."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import psutil

from netpipe.clock import Clock
from netpipe.device.emulated_names import parse_accelerator
from netpipe.device.shared_storages import SHARED_STORAGES
from netpipe.errors import OutOfTimeError, SessionError
from netpipe.files.temporary_folders import temporary_folder
from netpipe.jobs.cleanup import end_child, list_started
from netpipe.jobs.processes import describe_exit, tree_cpu_s
from netpipe.jobs.progress import OnProgress, ProgressReader
from netpipe.jobs.request import (
    FAREWELL_S,
    REQUEST_VARIABLE,
    SessionRequest,
    partial_result_file,
    progress_file,
    read_result,
    stacks_file,
)
from netpipe.results.measurement import Measurement, parse_measurement

CHILD_COMMAND: Final = (sys.executable, "-P", "-m", "netpipe.jobs.child")
"""The command that starts a session on targets; its request names them."""

_POLL_S = 0.05
_LISTING_S = 1.0  # each listing takes about a millisecond of CPU time during the measurement
_STACK_LINES = 25
_LOG_LINES: Final = 25
_MAX_SHOWN_BYTES: Final = 1 << 14


@dataclass(frozen=True)
class ProcessEnvironment:
    """The working directory and the environment variables of a process.

    Attributes:
        folder: The working directory; None for this process's.
        variables: Variables that are added to this process's, or replace them.
    """

    folder: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)

    def with_hash_seed(self, seed: str) -> "ProcessEnvironment":
        """Return the same environment with a value of PYTHONHASHSEED."""
        return replace(self, variables={**self.variables, "PYTHONHASHSEED": seed})


HERE: Final = ProcessEnvironment()
_LOG_NAME: Final = "log.txt"
_DEVICES: Final = Path("/dev")
_ACCELERATORS: Final = ("nvidiactl", "dxg", "kfd", "accel*", "vfio/[0-9]*")
"""The files of NVIDIA's driver, also in WSL, of AMD's driver and of TPUs."""


def run_measurement(
    command: Sequence[str],
    request: SessionRequest,
    environment: ProcessEnvironment = HERE,
    progress: OnProgress | None = None,
) -> Measurement:
    """Run a session and return its measurement; see `run_session`."""
    return parse_measurement(run_session(command, request, environment, progress), "session")


def run_session(
    command: Sequence[str],
    request: SessionRequest,
    environment: ProcessEnvironment = HERE,
    progress: OnProgress | None = None,
) -> Any:
    """Run a session and return its result; no process that it started outlives it.

    The child gets a copy of the request with `result` and `parent` set.

    Raises:
        MisuseError: The loader, the step or the loop is unsuitable.
        SessionError: The process crashed, hung or ran out of time.
    """
    with open_session(command, request, environment, progress) as session:
        return session.result()


@contextmanager
def open_session(
    command: Sequence[str],
    request: SessionRequest,
    environment: ProcessEnvironment = HERE,
    progress: OnProgress | None = None,
    inherited: Sequence[int] = (),
    *,
    in_own_unix_session: bool = True,
) -> "Iterator[Session]":
    """Yield a session started as by `run_session`, and end it at the end of the context.

    The process also inherits the file descriptors in `inherited`. It leads a Unix session of its
    own, or else a process group.
    """
    with temporary_folder("session") as folder:
        request = replace(request, result=str(folder / "result.json"), parent=os.getpid())
        with (folder / _LOG_NAME).open("wb") as stream:
            child = subprocess.Popen(
                command,
                cwd=environment.folder,
                env=_variables({**os.environ, **environment.variables}, request),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=in_own_unix_session,
                process_group=None if in_own_unix_session else 0,
                pass_fds=inherited,
            )
            session = Session(child, request, progress)
            try:
                yield session
            finally:
                end_child(child, request.result, session.started)


def is_on_cpu(request: SessionRequest, environment: ProcessEnvironment = HERE) -> bool:
    """Return whether a session's jax uses no accelerator, so that others may run beside it."""
    base = {**os.environ, **environment.variables}
    platforms = _variables(base, request).get("JAX_PLATFORMS")
    has_accelerator = any(any(_DEVICES.glob(pattern)) for pattern in _ACCELERATORS)
    return platforms == "cpu" or not (platforms or has_accelerator)


def _variables(base: Mapping[str, str], request: SessionRequest) -> dict[str, str]:
    withheld = ("PYTEST_XDIST", SHARED_STORAGES)
    variables = {name: value for name, value in base.items() if not name.startswith(withheld)}
    variables[REQUEST_VARIABLE] = request.to_json()
    if parse_accelerator(request.accelerator) is not None:
        variables["JAX_PLATFORMS"] = "cpu"
    return variables


class Session:
    """The process of a session, as its parent sees it.

    Attributes:
        started: The processes that it has started, recorded because a crashed one lists none.
        pid: The pid of the process.
    """

    def __init__(
        self,
        child: "subprocess.Popen[bytes]",
        request: SessionRequest,
        progress: OnProgress | None,
    ) -> None:
        self.started: set[psutil.Process] = set()
        self._child, self.pid = child, child.pid
        self._request = request
        on_progress = progress or (lambda _: None)
        self._reader = ProgressReader(progress_file(request), on_progress, Clock())
        self._has_written = False
        self._cpu_s = 0.0
        self._next_listing = 0.0
        self.restart_limit()

    def restart_limit(self) -> None:
        """Count the session's time limit from now on, because it has waited for its turn."""
        self._deadline = time.monotonic() + self._request.limit_s

    def cpu_s(self) -> float:
        """Return the CPU seconds of its process and all below it.

        A reading may miss a process while another one ends, so this is the highest one so far.
        """
        self._cpu_s = max(self._cpu_s, tree_cpu_s(self._child.pid))
        return self._cpu_s

    def is_over(self) -> bool:
        """Poll the process; return whether the session is over. Call this many times a second.

        It is over when the process ended or is out of time, or a few seconds after its result.
        """
        if self._child.poll() is not None:
            return True
        now_s = time.monotonic()
        if now_s >= self._next_listing:
            self._next_listing = now_s + _LISTING_S
            self.started |= list_started(self._child.pid)
        if not self._has_written and Path(self._request.result).exists():
            self._has_written = True
            self._deadline = now_s + FAREWELL_S
        self._reader.poll()
        return now_s >= self._deadline

    def result(self, *, is_early: bool = False) -> Any:
        """Wait until the session is over, or with `is_early` until its result is written."""
        while not (is_early and self._has_written) and not self.is_over():
            time.sleep(_POLL_S)
        for result in (Path(self._request.result), partial_result_file(self._request)):
            if result.exists():
                return read_result(result)
        raise self._failure()

    def _failure(self) -> SessionError:
        request, returncode = self._request, self._child.returncode
        ending = f"ended {describe_exit(returncode) or 'with code 0'}"
        if returncode is None:
            ending = f"did not end within {request.limit_s:g} s and was killed"
        lines = _read_last_lines(Path(request.result).with_name(_LOG_NAME))
        if (stacks := stacks_file(request)).exists():
            # The stack of the main thread comes last.
            text = stacks.read_text(encoding="utf-8", errors="replace")
            lines += "".join(text.rpartition("Thread ")[1:]).splitlines()[:_STACK_LINES]
        is_cut_short = returncode is None and request.limit_s == request.time_left_s
        error = OutOfTimeError if is_cut_short else SessionError
        shown = "\n".join(["; its last lines:", *lines] if lines else [])
        return error(f"the session {ending} without a result{shown}")


def _read_last_lines(log: Path) -> list[str]:
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - _MAX_SHOWN_BYTES))
        return stream.read().decode(errors="replace").splitlines()[-_LOG_LINES:]
