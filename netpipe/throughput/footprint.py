"""What loading takes beside time: memory of all processes, and bytes that they read."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from os import getpid
from pathlib import Path
from typing import Final

import psutil

_IO: Final = "/proc/{}/io"


@dataclass(frozen=True)
class Memory:
    """Memory of this process and all that it started.

    Attributes:
        pss_bytes: Proportional set size: what several of them share counts once.
        rss_bytes: Resident set size: what several of them share counts in each.
    """

    pss_bytes: int
    rss_bytes: int

    def __or__(self, other: "Memory") -> "Memory":
        """Return the higher of both, each by itself."""
        return Memory(max(self.pss_bytes, other.pss_bytes), max(self.rss_bytes, other.rss_bytes))


def read_memory() -> Memory:
    """Look at all processes; the kernel walks their pages, some 10 ms for each of 200 MB."""
    me = psutil.Process()
    pss_bytes = rss_bytes = 0
    for process in (me, *me.children(recursive=True)):
        with suppress(psutil.Error):  # it has ended meanwhile
            found = process.memory_full_info()
            pss_bytes += found.pss
            rss_bytes += found.rss
    return Memory(pss_bytes, rss_bytes)


def bytes_read(workers: Sequence[int]) -> dict[int, int]:
    """Return the bytes that each loading process has read until now, by its process id.

    They are the kernel's count of read calls (`rchar` of proc_pid_io(5)), which has files that are
    in the page cache in it, but no file that is mapped into memory. It has pipes in it too, and a
    process with workers receives their batches through one: so the workers load where there are
    any, and this process does where there are none. How ArrayRecord frames the rows is in it.

    Args:
        workers: The worker processes.
    """
    read = {}
    for pid in workers or (getpid(),):
        with suppress(OSError):  # it has ended meanwhile
            (line, *_) = Path(_IO.format(pid)).read_text(encoding="ascii").splitlines()
            read[pid] = int(line.removeprefix("rchar: "))
    return read


def read_between(before: Mapping[int, int], after: Mapping[int, int]) -> int:
    """Return the bytes read from one count to the next; a process may have started meanwhile."""
    return sum(count - before.get(pid, 0) for pid, count in after.items())
