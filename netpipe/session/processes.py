"""The processes of a session, their CPU time, and that of everything else on the machine."""

import multiprocessing.process
import os
import signal
import time
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import psutil

from netpipe.session.descendants import (
    DESCENDANTS,
    list_descendants,
    process_cpu_s,
    without_subtrees,
)

_TRACKER = "multiprocessing.resource_tracker"
_HELPERS = (_TRACKER, "multiprocessing.forkserver")


class ProcessTree:
    """This process and its current children, loader workers among them.

    CPU time includes all descendants, also those that start later or have ended.

    Args:
        without: Children that are excluded, with their descendants.
    """

    def __init__(self, without: Collection[int] = ()) -> None:
        self._without = frozenset(without)
        self._parents = list_descendants()
        self._children = without_subtrees(self._parents, self._without)

    @property
    def pids(self) -> tuple[int, ...]:
        """The children."""
        return tuple(self._children)

    @property
    def children(self) -> int:
        """How many child processes there are."""
        return len(self._children)

    @cached_property
    def worker_pids(self) -> tuple[int, ...]:
        """The children without the helpers that Python's multiprocessing starts."""
        return tuple(pid for pid in self._children if not _is_running(pid, _HELPERS))

    @property
    def workers(self) -> int:
        """How many children work, not counting the programs that they have started."""
        return sum(self._parents[pid] not in self.worker_pids for pid in self.worker_pids)

    def cpu_s(self) -> float:
        """Return the CPU seconds used so far, also by descendants that have ended."""
        return time.process_time() + DESCENDANTS.cpu_s(self._without)

    def children_cpu_s(self) -> float:
        """Return the CPU seconds that the children have used; an ended child counts 0."""
        return sum(map(process_cpu_s, self._children))


def list_own_threads() -> frozenset[int]:
    """Return the ids of this process's threads, also of those that Python did not start."""
    return frozenset(int(entry.name) for entry in Path("/proc/self/task").iterdir())


def is_resource_tracker(pid: int) -> bool:
    """Return whether a process is Python's resource tracker, which removes shared memory."""
    return _is_running(pid, (_TRACKER,))


def _is_running(pid: int, modules: tuple[str, ...]) -> bool:
    try:
        words = psutil.Process(pid).cmdline()
    except psutil.Error:
        return False
    return any(module in word for module in modules for word in words)


def describe_crash(pid: int) -> str | None:
    """Return how a child of this process crashed: "by SIGKILL", "with code 3".

    Whoever started the child can still wait for it. None stands for a child that runs, that ended
    without an error, or that somebody has waited for.
    """
    try:
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return None
    if ended is None or ended.si_status == 0:
        return None
    exited = ended.si_code == os.CLD_EXITED
    return _ending(ended.si_status if exited else -ended.si_status)


def _ending(exit_code: int) -> str:
    return f"with code {exit_code}" if exit_code > 0 else f"by {signal.Signals(-exit_code).name}"


class Worker(NamedTuple):
    """A process that multiprocessing has started; `crash` is "" if it runs or ended normally."""

    pid: int
    crash: str


def list_workers() -> list[Worker]:
    """Return the processes of multiprocessing that nobody has joined, also ended ones."""
    # `active_children` would forget the ended ones.
    known = multiprocessing.process._children.copy()  # type: ignore[attr-defined]  # noqa: SLF001
    return [
        Worker(process.pid, _ending(process.exitcode) if process.exitcode else "")
        for process in known
        if process.pid
    ]


def describe_activity(pid: int) -> str:
    """Return what a process does, in words: "sleeping, 1.25 CPU seconds used"."""
    try:
        process = psutil.Process(pid)
        times = process.cpu_times()
        if process.status() == psutil.STATUS_ZOMBIE:
            return "has ended"
    except psutil.Error:
        return "is gone"
    return f"{process.status()}, {times.user + times.system:.2f} CPU seconds used"


@dataclass(frozen=True)
class HostCpu:
    """A reading of the host's CPU time.

    Attributes:
        busy_s: CPU seconds used by any program, or taken from this virtual machine.
        total_s: CPU seconds that passed, over all CPUs.
        own_s: CPU seconds that this process and its descendants used.
    """

    busy_s: float
    total_s: float
    own_s: float


def read_host_cpu() -> HostCpu:
    """Read how much CPU time the host has spent until now."""
    times = psutil.cpu_times()
    idle = times.idle + times.iowait
    total = sum(times) - times.guest - times.guest_nice
    return HostCpu(busy_s=total - idle, total_s=total, own_s=ProcessTree().cpu_s())


def busy_elsewhere_fraction(before: HostCpu, after: HostCpu) -> float:
    """Return the fraction of the host's CPU time that other programs took between two readings."""
    total = after.total_s - before.total_s
    elsewhere = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    return min(1.0, max(0.0, elsewhere / total)) if total > 0 else 0.0
