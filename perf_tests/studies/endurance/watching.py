"""Memory, files and shared memory of a loader that is pulled without pauses."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from typing import Final

import psutil

from netpipe.jobs.footprint import read_memory

SHARED_MEMORY: Final = Path("/dev/shm")  # only inspected, not written to
MIN_LOOKS: Final = 20
_MB: Final = 1e6


@dataclass(frozen=True)
class Held:
    """Memory and files of all processes of a loader at one moment.

    Attributes:
        elapsed_s: Seconds since the first batch.
        batches_per_s: Speed since the previous moment.
        pss_bytes: Memory; pages of several processes count once. Pages of libraries count less
            while processes of others use them too.
        own_bytes: Memory that the processes wrote themselves, without libraries and files.
        open_files: File descriptors.
        shared_memory_files: Files in /dev/shm.
        shared_memory_bytes: Total size of the files in /dev/shm.
    """

    elapsed_s: float
    batches_per_s: float
    pss_bytes: int
    own_bytes: int
    open_files: int
    shared_memory_files: int
    shared_memory_bytes: int


@dataclass(frozen=True)
class Growth:
    """The change of one quantity from the beginning to the end.

    Attributes:
        name: A field of `Held`.
        before: The median over the second tenth of the time; in the first, buffers fill.
        after: The median over the last tenth.
        most: Largest increase that counts as flat.
    """

    name: str
    before: float
    after: float
    most: float

    @property
    def is_flat(self) -> bool:
        """Whether the increase is at most `most`."""
        return self.after - self.before <= self.most


_MOST: Final = {
    "own_bytes": 5 * _MB,
    "open_files": 0.0,
    "shared_memory_files": 2.0,  # batches in flight at that moment
    "shared_memory_bytes": 2 * _MB,
}


def watch(batches: Iterable[object], seconds: float, every_s: float) -> Iterator[Held]:
    """Pull an endless loader for `seconds` and at least `MIN_LOOKS` moments; yield each one."""
    iterator = iter(batches)
    try:
        next(iterator)
        started = looked = time.monotonic()
        looks = pulled = 0
        while looked - started < seconds or looks < MIN_LOOKS:
            next(iterator)
            pulled += 1
            now = time.monotonic()
            if now - looked >= every_s:
                yield _read_held(now - started, pulled / (now - looked))
                looks, looked, pulled = looks + 1, now, 0
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()


def compute_growths(held: Sequence[Held]) -> tuple[Growth, ...]:
    """Compare the end with the beginning, for everything that must stay flat."""
    tenth = len(held) // 10
    first, last = held[tenth : 2 * tenth], held[-tenth:]
    return tuple(
        Growth(
            name,
            median(getattr(moment, name) for moment in first),
            median(getattr(moment, name) for moment in last),
            most,
        )
        for name, most in _MOST.items()
    )


def list_columns(held: Sequence[Held]) -> dict[str, list[float]]:
    """Return the values of each field over all moments."""
    rows = [asdict(moment) for moment in held]
    return {field.name: [row[field.name] for row in rows] for field in fields(Held)}


def _read_held(elapsed_s: float, batches_per_s: float) -> Held:
    me = psutil.Process()
    processes = [me, *me.children(recursive=True)]
    shared = [file.stat().st_size for file in SHARED_MEMORY.iterdir() if file.is_file()]
    return Held(
        elapsed_s=elapsed_s,
        batches_per_s=batches_per_s,
        pss_bytes=read_memory()[0],
        own_bytes=sum(map(_own_bytes, processes)),
        open_files=sum(process.num_fds() for process in processes),
        shared_memory_files=len(shared),
        shared_memory_bytes=sum(shared),
    )


def _own_bytes(process: psutil.Process) -> int:
    """Return the memory without files: `Pss_Anon` and `Pss_Shmem` of proc_pid_smaps(5)."""
    try:
        text = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return 0  # it has ended
    found = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    kilobytes = (found[name].split()[0] for name in ("Pss_Anon", "Pss_Shmem"))
    return 1024 * sum(map(int, kilobytes))
