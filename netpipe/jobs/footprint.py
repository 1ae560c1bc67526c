"""Memory, open files and shared memory of the loading processes, and the bytes that they read."""

import ctypes
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from os import getpid
from pathlib import Path

import psutil

from netpipe.jobs.processes import list_descendants

SHARED_FOLDER = Path("/dev/shm")
# Python's shared memory has random names that start with this.
PYTHONS_PREFIX = "psm_"


class _Mallinfo(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    )  # fmt: skip


def read_memory() -> tuple[int, int]:
    """Return the PSS and the RSS of this process and all its descendants together, in bytes.

    The proportional set size (PSS) counts shared memory once; the resident set size (RSS) counts it
    in every process. The kernel walks all pages, which takes about 10 ms for each 200 MB.
    """
    found = [_read_rollup(pid) for pid in (getpid(), *list_descendants(getpid()))]
    return sum(each.get("Pss", 0) for each in found), sum(each.get("Rss", 0) for each in found)


def _read_rollup(pid: int) -> dict[str, int]:
    """Return a process's bytes by their names in proc_pid_smaps(5); empty if it has ended."""
    with suppress(OSError):
        text = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii")
        return {name: 1024 * int(kib) for name, kib in re.findall(r"(?m)^(\w+): +(\d+) kB", text)}
    with suppress(psutil.Error):  # Some sandboxes lack the file; the RSS is an upper bound.
        memory = psutil.Process(pid).memory_info()
        return {"Pss": memory.rss, "Rss": memory.rss, "Pss_File": memory.shared}
    return {}


def read_pss(pid: int) -> tuple[int, int]:
    """Return a process's PSS and the part not backed by files, in bytes; zeros if it has ended.

    The pages of mapped files are a cache, which the kernel can empty.
    """
    found = _read_rollup(pid)
    pss_bytes = found.get("Pss", 0)
    return pss_bytes, pss_bytes - found.get("Pss_File", 0)


def free_heap_bytes() -> int:
    """Return the bytes that this process has freed but its C library keeps; see mallinfo2(3).

    They are not known, and 0 is returned, unless the C library is glibc 2.33 or later.
    """
    mallinfo = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if mallinfo is None:
        return 0
    mallinfo.restype = _Mallinfo
    free_bytes: int = mallinfo().fordblks
    return free_bytes


def count_open_files(pid: int) -> int:
    """Return the number of a process's open files, sockets and pipes; 0 if it has ended."""
    with suppress(psutil.Error):
        return psutil.Process(pid).num_fds()
    return 0


def list_shared_files() -> dict[str, int]:
    """Return the bytes of each of this user's files in /dev/shm, by name."""
    sizes = {}
    with suppress(OSError), os.scandir(SHARED_FOLDER) as entries:
        for entry in entries:
            with suppress(OSError):  # The file may have been removed meanwhile.
                if (found := entry.stat()).st_uid == os.geteuid():
                    sizes[entry.name] = found.st_size
    return sizes


def is_shared_memory_used_elsewhere() -> bool:
    """Return whether an unrelated process maps Python's shared memory."""
    named = f"{SHARED_FOLDER}/{PYTHONS_PREFIX}"
    for pid in {*psutil.pids()} - {getpid(), *list_descendants(getpid())}:
        with suppress(OSError):  # The process has ended, or is another user's.
            if named in Path(f"/proc/{pid}/maps").read_text(errors="replace"):
                return True
    return False


def bytes_read(workers: Sequence[int]) -> dict[int, int]:
    """Return the bytes that each loading process has read so far, by process id.

    The kernel counts read calls (`rchar` of proc_pid_io(5)), including reads from the page cache
    and from pipes, but not reads of mapped files. A process with workers gets their batches through
    pipes, so this process is counted only if there are no workers.
    """
    read = {}
    for pid in workers or (getpid(),):
        # The process may have ended. psutil lacks this method if the kernel does not count.
        with suppress(psutil.Error, AttributeError):
            read[pid] = psutil.Process(pid).io_counters().read_chars
    return read


def read_between(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """Return the bytes read between two counts; processes may have started in between."""
    return sum(count - before.get(pid, 0) for pid, count in after.items())
