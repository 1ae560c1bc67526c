"""Ending a session: its process, everything that it started, and the files that these leave."""

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import suppress
from multiprocessing import current_process
from pathlib import Path
from typing import Final, NoReturn

import psutil

from netpipe.session.processes import is_resource_tracker
from netpipe.session.request import REQUEST_VARIABLE, SessionRequest

SESSION_FOLDER_PREFIX: Final = "netpipe-session-"
_TRACE_FOLDERS: Final = "netpipe-trace-{}-*"  # as `profiler_trace` names them
_MAX_SOCKET_FOLDER_LENGTH: Final = 107 - len("/listener-12345678")  # unix(7)
_CLEANING_S: Final = 5.0


def keep_sockets_in_session_folder(request: SessionRequest) -> None:
    """Have Python's multiprocessing put its temporary files into the session's folder.

    Its managers and its fork server keep sockets there, which killed processes leave behind. A
    folder whose name is too long for a socket's is not used.
    """
    folder = str(Path(request.result).parent)
    if len(folder) <= _MAX_SOCKET_FOLDER_LENGTH:
        current_process()._config["tempdir"] = folder  # type: ignore[attr-defined]  # noqa: SLF001


def end_child(child: "subprocess.Popen[bytes]", result: str) -> None:
    """Kill a session's process and everything that it started.

    Its result file identifies processes that have left the session.
    """
    child.kill()
    trackers = _kill_followers(child.pid, result)
    child.wait()
    _, late = psutil.wait_procs(trackers, timeout=_CLEANING_S)
    for process in late:
        _kill(process)
    _remove_traces(child.pid)


def end_this_session(request: SessionRequest) -> NoReturn:
    """End this process at once, and everything that it started; a result that is awaited stays."""
    _kill_followers(os.getpid(), request.result)
    _remove_traces(os.getpid())
    folder = Path(request.result).parent
    if is_abandoned(request) and folder.name.startswith(SESSION_FOLDER_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def is_abandoned(request: SessionRequest) -> bool:
    """Return whether the process that waited for this session's result is gone."""
    return request.parent not in (None, os.getppid())


def _remove_traces(pid: int) -> None:
    """Remove the files of a profiler that was killed while it traced."""
    for folder in Path(tempfile.gettempdir()).glob(_TRACE_FOLDERS.format(pid)):
        shutil.rmtree(folder, ignore_errors=True)


def _kill_followers(leader: int, result: str) -> list[psutil.Process]:
    """Kill what the leader of a session started; return Python's resource trackers, which live.

    A tracker ends by itself, after everything that could use the session's shared memory and
    semaphores has ended, and removes them.
    """
    followers = [process for process in psutil.process_iter() if _follows(process, leader, result)]
    trackers = []
    for process in followers:
        if is_resource_tracker(process.pid):
            trackers.append(process)
        elif process.pid != leader:
            _kill(process)
    return trackers


def _follows(process: psutil.Process, leader: int, result: str) -> bool:
    """Return whether a process lives and was started by `leader`, directly or not.

    It is in the Unix session that the leader leads, even as an orphan; or it has left that session
    (setsid) and its environment still holds the request, which names the result file.
    """
    with suppress(OSError, psutil.Error):
        return process.status() != psutil.STATUS_ZOMBIE and (
            os.getsid(process.pid) == leader
            or result in process.environ().get(REQUEST_VARIABLE, "")
        )
    return False


def _kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.send_signal(signal.SIGKILL)
