"""The processes that descend from this one, and the CPU clocks of processes and threads."""

import os
import resource
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

# CPUCLOCK_SCHED and CPUCLOCK_PERTHREAD_MASK of the kernel's posix-timers.h
_SCHEDULER_CLOCK = 2
_THREAD_CLOCK = 4
_MAX_READINGS = 5
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# False where the kernel was built without CONFIG_PROC_CHILDREN.
_THREADS_LIST_CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children").exists()


class Descendants:
    """The CPU time of all processes that descend from this one.

    The kernel adds the time of an ended process to the parent that waits for it. The time of an
    orphan, and of a process whose parent ignores its children's ends, is lost to the kernel; of
    those the last reading counts.
    """

    def __init__(self) -> None:
        self.forget()
        # A forked child has descendants of its own.
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Discard all earlier readings."""
        self._lock = threading.Lock()
        self._last_s = self._lost_s = 0.0

    def cpu_s(self, without: frozenset[int]) -> float:
        """Return the CPU seconds of all descendants but some children and their descendants."""
        with self._lock:
            parents, used_s, is_steady = _read_used()
            if sum(used_s.values()) < self._last_s:
                # The kernel may leave a child out of its list while another one ends.
                parents, used_s, is_steady = _read_used()
            now_s = sum(used_s.values())
            if is_steady:
                self._lost_s += max(0.0, self._last_s - now_s)
                self._last_s = now_s
            counted = {os.getpid(), *without_subtrees(parents, without)}
            return now_s + self._lost_s - sum(used_s[pid] for pid in used_s.keys() - counted)


def _read_used() -> tuple[Mapping[int, int], Mapping[int, float], bool]:
    """Read the CPU time of all descendants.

    Returns:
        The parent of every descendant, by pid; the CPU seconds of every descendant with those of
        its ended children, and under this process's pid the seconds of its ended children; and
        whether no process was waited for during the reading, which would count twice or not at all.
    """
    for _ in range(_MAX_READINGS):
        parents = list_descendants()
        ended_s = _ended_s(parents)
        used_s = {pid: ended_s[pid] + process_cpu_s(pid) for pid in parents}
        used_s[os.getpid()] = ended_s[os.getpid()]
        is_steady = _ended_s(parents) == ended_s
        if is_steady:
            break
    return parents, used_s, is_steady


DESCENDANTS = Descendants()


def list_descendants() -> dict[int, int]:
    """Return the parent of every descendant of this process, by pid; parents come first."""
    found: dict[int, int] = {}
    parents = [os.getpid()]
    while parents:
        parent = parents.pop()
        children = [pid for pid in _children_of(parent) if pid not in found]
        found |= dict.fromkeys(children, parent)
        parents += children
    return found


def _children_of(pid: int) -> list[int]:
    """Return the children of a process, zombies included, as its threads list them.

    psutil reads every process of the host, which takes five times as long: too long beside a
    loader that is watched until it is idle.
    """
    if not _THREADS_LIST_CHILDREN:
        with suppress(psutil.Error):
            return [child.pid for child in psutil.Process(pid).children()]
    found: list[int] = []
    with suppress(OSError), os.scandir(f"/proc/{pid}/task") as tasks:
        for thread in tasks:
            found += map(int, _read(f"{thread.path}/children").split())
    return found


def without_subtrees(tree: Mapping[int, int], without: Collection[int]) -> list[int]:
    """Return the processes of a tree that are not in `without` and do not descend from it."""
    found: list[int] = []
    excluded = set(without)
    for pid, parent in tree.items():
        if pid in excluded or parent in excluded:
            excluded.add(pid)
        else:
            found.append(pid)
    return found


def _ended_s(living: Collection[int]) -> dict[int, float]:
    """Return the CPU seconds of the ended children of this process and of each living one."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {os.getpid(): ended.ru_utime + ended.ru_stime}
    for pid in living:
        # cutime and cstime in proc(5)
        words = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()[13:15]
        found[pid] = sum(map(int, words)) / _TICKS_PER_S
    return found


def _read(path: str) -> bytes:
    """Read a file of /proc; b"" when its process or thread has ended."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123  # a Path takes twice as long
            return file.read()
    except OSError:
        return b""


def process_cpu_s(pid: int) -> float:
    """Read another process's CPU clock, to the nanosecond; 0 when it has ended.

    The clock's number is built as in the kernel's MAKE_PROCESS_CPUCLOCK: Python does not offer
    clock_getcpuclockid(3).
    """
    return _clock_s((~pid << 3) | _SCHEDULER_CLOCK)


def _clock_s(number: int) -> float:
    try:
        return time.clock_gettime(number)
    except OSError:
        return 0.0


def thread_cpu_s(thread: int) -> float:
    """Return the CPU time that a thread of this process has used; 0 when it has ended."""
    return _clock_s((~thread << 3) | _SCHEDULER_CLOCK | _THREAD_CLOCK)
