"""Disturbances of a command: signals at random moments, too little space, a second copy."""

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

_DISK_BYTES: Final = 64 * 2**20
_MOST_FREE_BYTES: Final = 24 * 2**20


@dataclass(frozen=True)
class Disturbance:
    """One kind of disturbance.

    Attributes:
        trials: Number of trials with each command.
        sent: The signal that the command gets at a random moment, if any.
        to_group: Whether the whole process group gets the signal, as from a closed terminal.
        fills_disk: Whether the disk of the project and of the temporary folder has only a little
            room, drawn at random.
        read_only: Which folder cannot be written to: "project", "temporary" or none.
        shm_kib: The size of /dev/shm, if limited.
        copies: How many of the same command run at once.
    """

    name: str
    trials: int
    sent: signal.Signals | None = None
    to_group: bool = False
    fills_disk: bool = False
    read_only: str = ""
    shm_kib: int | None = None
    copies: int = 1

    @property
    def is_possible(self) -> bool:
        """Whether this user may apply it: limiting space needs the right to mount file systems."""
        needs_mounts = self.fills_disk or self.read_only or self.shm_kib is not None
        return not needs_mounts or may_mount()

    def wrap(self, arguments: Sequence[str], shm: Path) -> list[str]:
        """Return the command line of a command under this disturbance.

        Its shared memory is in the folder `shm`, where this user may mount that as /dev/shm.
        """
        if not may_mount():
            return list(arguments)
        mount = f"mount --bind {shlex.quote(str(shm))} /dev/shm"
        if self.shm_kib is not None:
            mount = f"mount -t tmpfs -o size={self.shm_kib}k none /dev/shm"
        return ["unshare", "--mount", "sh", "-c", f"{mount} && exec {shlex.join(arguments)}"]


DISTURBANCES: Final[Mapping[str, Disturbance]] = {
    disturbance.name: disturbance
    for disturbance in (
        Disturbance("SIGTERM", 20, signal.SIGTERM),
        Disturbance("SIGHUP", 20, signal.SIGHUP, to_group=True),
        Disturbance("SIGKILL", 20, signal.SIGKILL),
        Disturbance("full disk", 20, fills_disk=True),
        Disturbance("read-only project", 2, read_only="project"),
        Disturbance("read-only temporary folder", 2, read_only="temporary"),
        Disturbance("64 KiB of /dev/shm", 2, shm_kib=64),
        Disturbance("two at once", 5, copies=2),
    )
}
"""The disturbances by name."""


@contextmanager
def prepare_disk(disturbance: Disturbance, scratch: Path) -> Iterator[None]:
    """Put `scratch` on a small disk of its own if the disturbance needs one."""
    if not disturbance.fills_disk and not disturbance.read_only:
        yield
        return
    _mount("-t", "tmpfs", "-o", f"size={_DISK_BYTES}", "none", str(scratch))
    try:
        yield
    finally:
        subprocess.run(["umount", "--recursive", "--lazy", str(scratch)], check=True)


def limit_disk(
    disturbance: Disturbance, project: Path, temporary: Path, free_fraction: float
) -> None:
    """Take away space, or the right to write, once the project has been written.

    `free_fraction` is the part of `_MOST_FREE_BYTES` that stays free.
    """
    if disturbance.fills_disk:
        filled_bytes = shutil.disk_usage(project).free - int(free_fraction * _MOST_FREE_BYTES)
        with (project.parent / "filler").open("wb") as stream:
            os.posix_fallocate(stream.fileno(), 0, filled_bytes)
    folder = {"project": project, "temporary": temporary}.get(disturbance.read_only)
    if folder is not None:
        _mount("--bind", str(folder), str(folder))
        _mount("-o", "remount,bind,ro", str(folder))


@cache
def may_mount() -> bool:
    """Return whether this user may mount file systems, in a namespace of their own."""
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return os.geteuid() == 0 and tried.returncode == 0


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)
