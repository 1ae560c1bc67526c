"""Memory of all processes that load, and the bytes that they read."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import getpid

import psutil


def read_memory() -> tuple[int, int]:
    """Return the PSS and the RSS of this process and all its descendants together, in bytes.

    Memory that several processes share counts once in the proportional set size (PSS), and in each
    of them in the resident set size (RSS). The kernel walks all pages, about 10 ms for each 200 MB.
    """
    this = psutil.Process()
    pss_bytes = rss_bytes = 0
    for process in (this, *this.children(recursive=True)):
        # It may have ended meanwhile.
        with suppress(psutil.Error):
            found = process.memory_full_info()
            pss_bytes += found.pss
            rss_bytes += found.rss
    return pss_bytes, rss_bytes


def bytes_read(workers: Sequence[int]) -> dict[int, int]:
    """Return the bytes that each loading process has read so far, by process id.

    The kernel counts read calls (`rchar` of proc_pid_io(5)): also of files in the page cache and of
    pipes, but not of files mapped into memory. A process with workers receives their batches
    through a pipe, so it counts only where there are no workers.
    """
    read = {}
    for pid in workers or (getpid(),):
        # It may have ended meanwhile; where the kernel does not count, psutil's method is missing.
        with suppress(psutil.Error, AttributeError):
            read[pid] = psutil.Process(pid).io_counters().read_chars
    return read


def read_between(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """Return the bytes read between two counts; a process may have started meanwhile."""
    return sum(count - before.get(pid, 0) for pid, count in after.items())
