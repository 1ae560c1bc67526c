"""Memory of all processes that load, what else they hold, and the bytes that they read."""

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import getpid
from pathlib import Path

import psutil

from netpipe.jobs.processes import list_descendants

SHARED_FOLDER = Path("/dev/shm")
# Of the names that multiprocessing.shared_memory draws at random.
PYTHONS_PREFIX = "psm_"


def read_memory() -> tuple[int, int]:
    """Return the PSS and the RSS of this process and all its descendants together, in bytes.

    Memory that several processes share counts once in the proportional set size (PSS), and in each
    of them in the resident set size (RSS). The kernel walks all pages, about 10 ms for each 200 MB.
    """
    found = [_read_rollup(pid) for pid in (getpid(), *list_descendants(getpid()))]
    return sum(each.get("Pss", 0) for each in found), sum(each.get("Rss", 0) for each in found)


def _read_rollup(pid: int) -> dict[str, int]:
    """Return the bytes of a process by the names in proc_pid_smaps(5); none if it has ended."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii")
        return {name: 1024 * int(kib) for name, kib in re.findall(r"(?m)^(\w+): +(\d+) kB", text)}
    return {}


def read_pss(pid: int) -> tuple[int, int]:
    """Return the PSS of a process, and how much of it no file backs, in bytes; 0 if it has ended.

    Pages of a mapped file are a cache, which the kernel empties when it needs memory.
    """
    found = _read_rollup(pid)
    pss_bytes = found.get("Pss", 0)
    return pss_bytes, pss_bytes - found.get("Pss_File", 0)


def count_open_files(pid: int) -> int:
    """Return how many descriptors a process has open, sockets and pipes too; 0 if it has ended."""
    with suppress(psutil.Error):
        return psutil.Process(pid).num_fds()
    return 0


def list_shared_files() -> dict[str, int]:
    """Return the bytes of each of this user's files in /dev/shm, by name."""
    sizes = {}
    with suppress(OSError), os.scandir(SHARED_FOLDER) as entries:
        for entry in entries:
            with suppress(OSError):  # It may have been removed meanwhile.
                if (found := entry.stat()).st_uid == os.geteuid():
                    sizes[entry.name] = found.st_size
    return sizes


def is_shared_memory_used_elsewhere() -> bool:
    """Return whether a process that does not descend from this one maps Python's shared memory."""
    named = f"{SHARED_FOLDER}/{PYTHONS_PREFIX}"
    for pid in {*psutil.pids()} - {getpid(), *list_descendants(getpid())}:
        with suppress(OSError):  # It has ended, or is another user's.
            if named in Path(f"/proc/{pid}/maps").read_text(errors="replace"):
                return True
    return False


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
