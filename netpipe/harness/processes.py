"""CPU time of this process and its children, and of everything else on the machine."""

import resource
import time
from dataclasses import dataclass

import psutil

_SCHEDULER_CLOCK = 2  # CPUCLOCK_SCHED of the kernel's posix-timers.h


class ProcessTree:
    """This process and the children it has now, loader workers among them."""

    def __init__(self) -> None:
        self._children = [child.pid for child in psutil.Process().children(recursive=True)]

    @property
    def children(self) -> int:
        """How many child processes there are."""
        return len(self._children)

    def cpu_s(self) -> float:
        """Return the CPU time used so far, in seconds; of a child that has ended too."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        alive_s = sum(_process_cpu_s(pid) for pid in self._children)
        return time.process_time() + alive_s + ended.ru_utime + ended.ru_stime


def _process_cpu_s(pid: int) -> float:
    """Read another process's CPU clock, to the nanosecond; 0 when it has ended.

    The clock's number is built as the kernel's MAKE_PROCESS_CPUCLOCK builds it, which is what
    clock_getcpuclockid(3) returns and Python does not offer.
    """
    try:
        return time.clock_gettime((~pid << 3) | _SCHEDULER_CLOCK)
    except OSError:
        return 0.0


@dataclass(frozen=True)
class HostCpu:
    """A reading of the host's CPU time.

    Attributes:
        busy_s: CPU seconds that any program used, or that were stolen from this machine.
        total_s: CPU seconds that passed, over all CPUs.
        own_s: CPU seconds that this process and its children used.
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
    """Return the share of the host's CPU time that other programs took between two readings."""
    total = after.total_s - before.total_s
    elsewhere = (after.busy_s - before.busy_s) - (after.own_s - before.own_s)
    return min(1.0, max(0.0, elsewhere / total)) if total > 0 else 0.0
