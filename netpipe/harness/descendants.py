"""The processes that descend from this one, and the CPU clocks of processes and threads."""

import os
import resource
import threading
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

_SCHEDULER_CLOCK = 2  # CPUCLOCK_SCHED of the kernel's posix-timers.h
_OF_A_THREAD = 4  # CPUCLOCK_PERTHREAD_MASK
_MAX_READINGS = 5  # of CPU times between which a process was waited for
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Not where the kernel was built without CONFIG_PROC_CHILDREN.
_THREADS_LIST_CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children").exists()


class Descendants:
    """The CPU time of all processes that descend from this one.

    The kernel hands the time of an ended process to the parent that waits for it. Nobody is handed
    that of an orphan, whose parent ended first: it counts by its own clock, and after its end by
    what was read last.
    """

    def __init__(self) -> None:
        self.forget()
        # A forked child has descendants of its own.
        os.register_at_fork(after_in_child=self.forget)

    def forget(self) -> None:
        """Count as if nothing had been read before."""
        self._lock = threading.Lock()
        self._last = _Reading({}, {}, {})
        self._started: dict[int, int] = {}
        self._orphans_s: dict[tuple[int, int], float] = {}
        self._lost_s = 0.0

    def cpu_s(self, without: frozenset[int]) -> float:
        """Return the seconds used by all but some children and what those have started."""
        with self._lock:
            now = _read_descendants()
            self._count_orphans(now)
            self._last = now
            counted = [os.getpid(), *outside(now.parents, without)]
            return sum(map(now.used_s, counted)) + sum(self._orphans_s.values()) + self._lost_s

    def _count_orphans(self, now: "_Reading") -> None:
        for pid, started in list(self._started.items()):
            ended_s, now_started = _stat(pid)
            if pid in now.parents:
                # The kernel may leave a child out while another one ends: that was no orphan.
                self._orphans_s.pop((pid, started), None)
            elif now_started == started:
                self._orphans_s[pid, started] = process_cpu_s(pid) + ended_s
            else:
                del self._started[pid]
        self._started |= {pid: _stat(pid)[1] for pid in now.parents if pid not in self._started}
        gone = [pid for pid in self._last.parents if pid not in self._started]
        if any(self._last.parents[pid] in gone for pid in gone):
            # Either the parent waited before it ended, and its own parent was handed the time of
            # both, or nobody was.
            handed_s = sum(
                now.ended_s[pid] - ended_s
                for pid, ended_s in self._last.ended_s.items()
                if pid in now.ended_s
            )
            self._lost_s += max(0.0, sum(map(self._last.used_s, gone)) - handed_s)


@dataclass(frozen=True)
class _Reading:
    """The descendants of this process at one time.

    Attributes:
        parents: The parent of each.
        clock_s: The CPU seconds that each has used itself.
        ended_s: The CPU seconds of the processes that each has waited for; this process's too.
    """

    parents: Mapping[int, int]
    clock_s: Mapping[int, float]
    ended_s: Mapping[int, float]

    def used_s(self, pid: int) -> float:
        """Return the CPU seconds of a process and of what it has waited for."""
        return self.clock_s.get(pid, 0.0) + self.ended_s[pid]


def _read_descendants() -> _Reading:
    for _ in range(_MAX_READINGS):
        parents = list_descendants()
        ended_s = _ended_s(parents)
        clock_s = {pid: process_cpu_s(pid) for pid in parents}
        # A process that is waited for meanwhile would count twice, or not at all.
        if _ended_s(parents) == ended_s:
            break
    return _Reading(parents, clock_s, ended_s)


DESCENDANTS = Descendants()


def list_descendants() -> dict[int, int]:
    """Return the parents of all descendants of this process, by number; a parent comes first."""
    found: dict[int, int] = {}
    parents = [os.getpid()]
    while parents:
        parent = parents.pop()
        children = [pid for pid in _children_of(parent) if pid not in found]
        found |= dict.fromkeys(children, parent)
        parents += children
    return found


def _children_of(pid: int) -> list[int]:
    """Return the children of a process, zombies too, as its threads list them.

    psutil reads every process of the host, which takes five times as long: too long to be done
    beside a loader that is watched until it is quiet.
    """
    if not _THREADS_LIST_CHILDREN:
        with suppress(psutil.Error):
            return [child.pid for child in psutil.Process(pid).children()]
    found: list[int] = []
    with suppress(OSError), os.scandir(f"/proc/{pid}/task") as tasks:
        for thread in tasks:
            found += map(int, _read(f"{thread.path}/children").split())
    return found


def outside(tree: Mapping[int, int], without: Collection[int]) -> list[int]:
    """Return the processes of a tree that neither are in `without` nor descend from those."""
    found: list[int] = []
    excluded = set(without)
    for pid, parent in tree.items():
        if pid in excluded or parent in excluded:
            excluded.add(pid)
        else:
            found.append(pid)
    return found


def _ended_s(living: Collection[int]) -> dict[int, float]:
    """Return the CPU seconds of what this process and each living one have waited for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {os.getpid(): ended.ru_utime + ended.ru_stime} | {pid: _stat(pid)[0] for pid in living}


def _stat(pid: int) -> tuple[float, int]:
    """Return the CPU seconds that a process was handed by ended children, and when it started.

    In proc(5) they are cutime and cstime, and starttime; 0 and -1 of a process that is gone.
    """
    words = _read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    if not words:
        return 0.0, -1
    return (int(words[13]) + int(words[14])) / _TICKS_PER_S, int(words[19])


def _read(path: str) -> bytes:
    """Return what a file of /proc holds; nothing when its process or thread has ended."""
    try:
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123  # a Path takes twice as long
            return file.read()
    except OSError:
        return b""


def process_cpu_s(pid: int) -> float:
    """Read another process's CPU clock, to the nanosecond; 0 when it has ended.

    The clock's number is built as the kernel's MAKE_PROCESS_CPUCLOCK builds it, which is what
    clock_getcpuclockid(3) returns and Python does not offer.
    """
    return _clock_s((~pid << 3) | _SCHEDULER_CLOCK)


def _clock_s(number: int) -> float:
    try:
        return time.clock_gettime(number)
    except OSError:
        return 0.0


def thread_cpu_s(thread: int) -> float:
    """Return the CPU time that a thread of this process has used; 0 when it has ended."""
    return _clock_s((~thread << 3) | _SCHEDULER_CLOCK | _OF_A_THREAD)
