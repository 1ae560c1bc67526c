"""The same batches twice: from the disk, and from the page cache."""

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
from netpipe.diagnosis.schedule import TimeSlot
from netpipe.diagnosis.turns import SideBlocks, measure_in_turns
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.session.heartbeat import Watch

FROM_DISK: Final = "from-disk"
CACHED: Final = "cached-bytes"

_LEAST_BATCHES: Final = 3
_MOST_BATCHES: Final = 500
_ROUNDS: Final = 4
_CODE: Final = tuple(
    {
        os.path.realpath(one) + os.sep
        for one in (sys.prefix, sys.base_prefix, sysconfig.get_paths()["stdlib"])
    }
    | {os.path.realpath(one) + os.sep for one in site.getsitepackages()}
)
_NO_DATA: Final = ("/dev/", "/proc/", "/sys/", "/usr/lib/")  # the last: locales, for one
_LIBRARY: Final = (".so", ".py", ".pyc")


def from_disk_and_cache(
    loader: LoaderFactory,
    time: TimeSlot,
    batch_s: float,
    watch: Watch,
    say: Callable[[int], None],
) -> SideBlocks | None:
    """Pull a loader's first batches from the disk and from the page cache, in turns.

    What is dropped is the part of the page cache that holds files which the loader has open and
    that nobody has written to since.

    Args:
        loader: Makes a lane.
        time: How long all may take.
        batch_s: About what a batch takes.
        watch: Told of every wait for a batch.
        say: Is told the number of each round.

    Returns:
        None where it has no file open.
    """
    # A lane starts anew for each block, and what it has read before is cached then.
    count = round(time.budget_s / (2 * _ROUNDS * 1.5 * batch_s))
    count = min(_MOST_BATCHES, max(_LEAST_BATCHES, count))
    lane = PullingThread(loader, time.clock, watch, time.until_s)
    try:
        files = open_files()
        if not files:
            return None
    finally:
        lane.close()

    def block(*, cold: bool) -> Block:
        if cold:
            drop_from_page_cache(files)
        anew = PullingThread(loader, time.clock, watch, time.until_s)
        try:
            return measure_batch_count(anew, count)
        finally:
            anew.close()

    sides = {FROM_DISK: lambda: block(cold=True), CACHED: lambda: block(cold=False)}
    return measure_in_turns(sides, time, say, count * batch_s)


def open_files() -> tuple[str, ...]:
    """Return the files of data that this process has open or mapped."""
    return tuple(sorted({one for one in _open_paths() if _is_data(one)}))


def _open_paths() -> Iterator[str]:
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            # What is only written to, as the log of a session is, is no data.
            if fcntl(int(descriptor.name), F_GETFL) & os.O_ACCMODE != os.O_WRONLY:
                yield str(descriptor.readlink())
    with suppress(OSError):
        for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
            yield line.partition("/")[1] + line.partition("/")[2]


def _is_data(path: str) -> bool:
    if path.startswith((*_NO_DATA, *_CODE)) or path.endswith(_LIBRARY) or ".so." in path:
        return False
    with suppress(OSError):
        return Path(path).is_file() and Path(path).stat().st_size > 0
    return False


def drop_from_page_cache(files: tuple[str, ...]) -> None:
    """Let the next read of files come from the disk, where the kernel does as it is asked."""
    for file in files:
        with suppress(OSError):
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)
