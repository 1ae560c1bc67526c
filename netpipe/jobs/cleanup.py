"""Ending a session: its process, all processes that it started, and the files that they leave."""

import atexit
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection
from contextlib import suppress
from multiprocessing import current_process
from pathlib import Path
from typing import Final, NoReturn

import psutil

from netpipe.files.temporary_folders import release_locks, remove_abandoned
from netpipe.jobs.processes import age_s, is_resource_tracker, list_descendants
from netpipe.jobs.request import REQUEST_VARIABLE, SessionRequest
from netpipe.signals import leave_terminal, signal_when_parent_ends

_MAX_SOCKET_FOLDER_LENGTH: Final = 107 - len("/listener-12345678")  # unix(7)
_NEW_MEMORY: Final = re.compile(r"/dev/shm/(psm_[0-9a-f]{8}|sem\.\w{6})")
_CLEANING_S: Final = 5.0
_POLL_S: Final = 0.01
_MAX_PASSES: Final = 5
_SET_CHILD_SUBREAPER: Final = 36  # PR_SET_CHILD_SUBREAPER of the kernel's prctl.h


def keep_sockets_in_session_folder(request: SessionRequest) -> None:
    """Make Python's multiprocessing put its sockets into the session's folder.

    Killed managers and fork servers leave their sockets behind. The folder is not used if its path
    is too long for a socket.
    """
    folder = str(Path(request.result).parent)
    if len(folder) <= _MAX_SOCKET_FOLDER_LENGTH:
        current_process()._config["tempdir"] = folder  # type: ignore[attr-defined]  # noqa: SLF001


def adopt_orphans() -> None:
    """Make this process adopt its orphaned descendants (PR_SET_CHILD_SUBREAPER in prctl(2))."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, ctypes.c_ulong(1))


def end_with_followers(request: SessionRequest) -> None:
    """Make this process kill its descendants when it exits: later, orphans could not be found."""
    adopt_orphans()
    leave_terminal()
    # `end_child` stops this process. If the parent dies meanwhile, the kernel resumes it.
    signal_when_parent_ends(signal.SIGCONT)
    atexit.register(_kill_followers, os.getpid(), request.result)


def list_started(leader: int) -> set[psutil.Process]:
    """Return the processes that descend from `leader`."""
    found = set()
    for pid in list_descendants(leader):
        with suppress(psutil.Error):
            found.add(psutil.Process(pid))
    return found


def end_child(
    child: "subprocess.Popen[bytes]", result: str, started: Collection[psutil.Process] = ()
) -> None:
    """Kill a session's process and all processes that it started.

    Processes that have left the session are found by its result file, or are in `started`.
    """
    # A stopped process still adopts orphans, but it cannot start new processes.
    child.send_signal(signal.SIGSTOP)
    trackers = _kill_followers(child.pid, result, started)
    if child.poll() is None:  # Once it has ended, its pid may be reused.
        _kill(psutil.Process(child.pid))
    child.wait()
    ends_s = time.monotonic() + _CLEANING_S
    # An ended tracker stays a zombie until init reaps it, which may take seconds or never happen.
    while (living := list(filter(_lives, trackers))) and time.monotonic() < ends_s:
        time.sleep(_POLL_S)
    for process in living:
        _kill(process)
    remove_abandoned(Path(tempfile.gettempdir()))


def end_this_session(request: SessionRequest) -> NoReturn:
    """End this process and all processes that it started, at once.

    The result file is kept if the parent is still waiting for it.
    """
    _kill_followers(os.getpid(), request.result)
    release_locks()
    # The session's folder is abandoned if the parent is dead.
    remove_abandoned(Path(tempfile.gettempdir()))
    if is_abandoned(request):
        # Another thread may have started a process meanwhile. Executing a program ends all threads.
        with suppress(OSError):
            os.execv(sys.executable, [sys.executable, "-P", "-m", __name__, request.result])
    os._exit(1)


def is_abandoned(request: SessionRequest) -> bool:
    """Return whether the parent, which waits for the result, has died."""
    return request.parent not in (None, os.getppid())


def _kill_followers(
    leader: int, result: str, started: Collection[psutil.Process] = ()
) -> set[psutil.Process]:
    """Kill all processes that a session's leader started, except the returned resource trackers.

    Python's resource trackers remove the session's shared memory and semaphores, and end, once all
    processes that use these have ended.
    """
    trackers: set[psutil.Process] = set()
    for _ in range(_MAX_PASSES):
        known = {*started, *list_started(leader)}
        found = {each for each in psutil.process_iter() if _follows(each, leader, result)}
        followers = {each for each in found | known if _lives(each) and each.pid != leader}
        trackers |= {each for each in followers if is_resource_tracker(each.pid)}
        if followers == trackers:
            break
        # The followers may have started more processes by now.
        for process in followers - trackers:
            _kill(process)
    return trackers


def _follows(process: psutil.Process, leader: int, result: str) -> bool:
    """Return whether a process certainly descends from `leader`.

    Such a process is in the leader's Unix session or process group, even as an orphan, or it has
    left it (setsid) and its environment contains the request, which names the result file.
    """
    with suppress(OSError, psutil.Error, ValueError, AttributeError):
        if leader in (os.getsid(process.pid), os.getpgid(process.pid)):
            return True
        request = json.loads(process.environ().get(REQUEST_VARIABLE, "{}"))
        return bool(result) and request.get("result") == result
    return False


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _kill(process: psutil.Process) -> None:
    """Kill a process, and remove shared memory that no resource tracker knows yet.

    Python registers shared memory only after it has created the file, and the C library creates a
    semaphore under a temporary name.
    """
    memory: list[Path] = []
    with suppress(psutil.Error, OSError):
        process.suspend()
        started_s = time.time() - age_s(process.pid)
        paths = [Path(file.path) for file in process.open_files()]
        memory = [
            path
            for path in paths
            if _NEW_MEMORY.fullmatch(str(path)) and path.stat().st_ctime > started_s
        ]
    with suppress(psutil.Error):
        process.kill()
    for path in memory:
        with suppress(OSError):
            path.unlink()


if __name__ == "__main__":
    _kill_followers(os.getpid(), sys.argv[1])
    sys.exit(1)
