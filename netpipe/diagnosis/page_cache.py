"""Compares loading the same batches from the disk and from the page cache."""

import os
import site
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import suppress
from fcntl import F_GETFL, fcntl
from pathlib import Path
from typing import Final

from netpipe.diagnosis.blocks import Block, PullingThread, measure_batch_count
from netpipe.diagnosis.interventions import CACHED, FROM_DISK
from netpipe.diagnosis.schedule import TimeSlot
from netpipe.diagnosis.turns import SideBlocks, measure_in_turns
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.session.heartbeat import Watch

_MIN_BATCHES: Final = 3
_MAX_BATCHES: Final = 500
_ROUNDS: Final = 4
# A batch from the disk is assumed to take this many times as long as from the page cache.
_COLD_SLOWDOWN: Final = 1.5
_PYTHON_FOLDERS: Final = (sys.prefix, sys.base_prefix, sysconfig.get_paths()["stdlib"])
_CODE: Final = tuple(
    {os.path.realpath(path) + os.sep for path in (*_PYTHON_FOLDERS, *site.getsitepackages())}
)
# /usr/lib holds the locale files, which every process maps.
_SYSTEM_FOLDERS: Final = ("/dev/", "/proc/", "/sys/", "/usr/lib/")
_CODE_SUFFIXES: Final = (".so", ".py", ".pyc")


def compare_disk_with_cache(
    loader: LoaderFactory,
    slot: TimeSlot,
    batch_s: float,
    watch: Watch,
    progress: Callable[[int], None],
) -> SideBlocks | None:
    """Pull a loader's first batches from the disk and from the page cache, in turns.

    Only the files that the loader has open are dropped from the page cache.

    Returns:
        None if the loader has no data file open.
    """
    count = round(slot.budget_s / (2 * _ROUNDS * _COLD_SLOWDOWN * batch_s))
    count = min(_MAX_BATCHES, max(_MIN_BATCHES, count))

    def start_puller() -> PullingThread:
        return PullingThread(loader, slot.clock, watch, slot.until_s)

    def pull(files: tuple[str, ...]) -> Block:
        drop_from_page_cache(files)
        # Start the loader again, so that it reads the same files from their beginning.
        puller = start_puller()
        try:
            return measure_batch_count(puller, count)
        finally:
            puller.close()

    puller = start_puller()
    try:
        files = open_files()
    finally:
        puller.close()
    if not files:
        return None
    sides = {FROM_DISK: lambda: pull(files), CACHED: lambda: pull(())}
    return measure_in_turns(sides, slot, progress, count * batch_s)


def open_files() -> tuple[str, ...]:
    """Return the data files that this process has open or mapped."""
    return tuple(sorted({path for path in _open_paths() if _is_data(path)}))


def _open_paths() -> Iterator[str]:
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            # Skip files that are open only for writing, such as the session's log.
            if fcntl(int(descriptor.name), F_GETFL) & os.O_ACCMODE != os.O_WRONLY:
                yield str(descriptor.readlink())
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
            _, slash, path = line.partition("/")
            yield slash + path


def _is_data(path: str) -> bool:
    if (
        path.startswith((*_SYSTEM_FOLDERS, *_CODE))
        or path.endswith(_CODE_SUFFIXES)
        or ".so." in path
    ):
        return False
    with suppress(OSError):
        return Path(path).is_file() and Path(path).stat().st_size > 0
    return False


def drop_from_page_cache(files: tuple[str, ...]) -> None:
    """Ask the kernel to drop files from the page cache: the next read is from the disk."""
    for file in files:
        with suppress(OSError):
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
