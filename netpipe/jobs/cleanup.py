"""Ending a session: its process, everything that it started, and the files that these leave."""

import atexit
import ctypes
import json
import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Collection
from contextlib import suppress
from multiprocessing import current_process
from pathlib import Path
from typing import Final, NoReturn

import psutil

from netpipe.jobs.processes import age_s, is_resource_tracker, list_descendants
from netpipe.jobs.request import REQUEST_VARIABLE, SessionRequest
from netpipe.temporary_folders import release_locks, remove_abandoned

_MAX_SOCKET_FOLDER_LENGTH: Final = 107 - len("/listener-12345678")  # unix(7)
_NEW_MEMORY: Final = re.compile(r"/dev/shm/(psm_[0-9a-f]{8}|sem\.\w{6})")
_CLEANING_S: Final = 5.0
_MAX_PASSES: Final = 5
# PR_SET_PDEATHSIG and PR_SET_CHILD_SUBREAPER of the kernel's prctl.h
_SET_PARENT_DEATH_SIGNAL: Final = 1
_SET_CHILD_SUBREAPER: Final = 36


def keep_sockets_in_session_folder(request: SessionRequest) -> None:
    """Have Python's multiprocessing put its temporary files into the session's folder.

    Its managers and its fork server keep sockets there, which killed processes leave behind. A
    folder whose name is too long for a socket's is not used.
    """
    folder = str(Path(request.result).parent)
    if len(folder) <= _MAX_SOCKET_FOLDER_LENGTH:
        current_process()._config["tempdir"] = folder  # type: ignore[attr-defined]  # noqa: SLF001


def adopt_orphans() -> None:
    """Make this process adopt its orphaned descendants (PR_SET_CHILD_SUBREAPER in prctl(2))."""
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, ctypes.c_ulong(1))


def end_with_followers(request: SessionRequest) -> None:
    """Have this process kill what it started when it exits; afterwards orphans cannot be found."""
    adopt_orphans()
    # If the parent dies in `end_child`, which has stopped this process, the kernel resumes it.
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, ctypes.c_ulong(signal.SIGCONT))
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
    """Kill a session's process and everything that it started.

    Its result file and what it is known to have `started` identify processes that have left the
    session.
    """
    # While it is stopped, it adopts the children of those that are killed, and starts no more.
    child.send_signal(signal.SIGSTOP)
    trackers = _kill_followers(child.pid, result, started)
    if child.poll() is None:  # otherwise, its pid may be another process's
        _kill(psutil.Process(child.pid))
    child.wait()
    _, late = psutil.wait_procs(trackers, timeout=_CLEANING_S)
    for process in late:
        _kill(process)
    remove_abandoned(Path(tempfile.gettempdir()))


def end_this_session(request: SessionRequest) -> NoReturn:
    """End this process at once, and everything that it started.

    The result file stays if the parent still waits for it.
    """
    _kill_followers(os.getpid(), request.result)
    release_locks()
    # This includes the session's folder if the parent is dead.
    remove_abandoned(Path(tempfile.gettempdir()))
    os._exit(1)


def is_abandoned(request: SessionRequest) -> bool:
    """Return whether the process that waited for this session's result is gone."""
    return request.parent not in (None, os.getppid())


def _kill_followers(
    leader: int, result: str, started: Collection[psutil.Process] = ()
) -> set[psutil.Process]:
    """Kill all that the leader of a session started, but Python's resource trackers; return these.

    A tracker ends by itself, after everything that could use the session's shared memory and
    semaphores has ended, and removes them.
    """
    trackers: set[psutil.Process] = set()
    for _ in range(_MAX_PASSES):
        known = {*started, *list_started(leader)}
        found = {each for each in psutil.process_iter() if _follows(each, leader, result)}
        followers = {each for each in found | known if _lives(each) and each.pid != leader}
        trackers |= {each for each in followers if is_resource_tracker(each.pid)}
        if followers == trackers:
            break
        # They may have started more meanwhile.
        for process in followers - trackers:
            _kill(process)
    return trackers


def _follows(process: psutil.Process, leader: int, result: str) -> bool:
    """Return whether a process was certainly started by `leader`, directly or not.

    It is in the Unix session that the leader leads, even as an orphan; or it has left that session
    (setsid) and its environment still holds the request, which names the result file.
    """
    with suppress(OSError, psutil.Error, ValueError, AttributeError):
        if os.getsid(process.pid) == leader:
            return True
        request = json.loads(process.environ().get(REQUEST_VARIABLE, "{}"))
        return bool(result) and request.get("result") == result
    return False


def _lives(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _kill(process: psutil.Process) -> None:
    """Kill a process, and remove the shared memory that it may not have registered yet.

    Python registers shared memory with its resource tracker after it has made the file, and the C
    library makes a semaphore under a temporary name.
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
