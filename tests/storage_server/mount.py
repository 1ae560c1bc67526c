"""The bucket as a folder, through FUSE: for readers that take local paths only."""

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.storage_server.data import BUCKET
from tests.storage_server.programs import find_debian_program, find_rclone
from tests.storage_server.server import KEY, SECRET, ServerError, running

_MOUNT_LIMIT_S: Final = 20.0
_POLL_S: Final = 0.05


@contextmanager
def mounted_bucket(endpoint: str, scratch: Path) -> Iterator[Path]:
    """Mount a server's bucket for the block, with an empty page cache.

    Raises:
        InputError: A program is not installed.
        ServerError: It cannot be mounted, for example without /dev/fuse.
    """
    unmount = find_debian_program("fusermount3")
    folder, log = scratch / "mounted", scratch / "mount.log"
    folder.mkdir(exist_ok=True)
    remote = (
        f":s3,provider=Other,access_key_id={KEY},secret_access_key={SECRET},"
        f'endpoint="http://{endpoint}",force_path_style=true:{BUCKET}'
    )
    command = [find_rclone(), "mount", remote, str(folder), "--config=", "--read-only"]
    with running(command, log) as process:
        try:
            _await_mount(process, folder, log)
            yield folder
        finally:
            subprocess.run([unmount, "-q", "-u", "-z", str(folder)], check=False)


def _await_mount(process: "subprocess.Popen[str]", folder: Path, log: Path) -> None:
    limit_s = time.monotonic() + _MOUNT_LIMIT_S
    while process.poll() is None and time.monotonic() < limit_s:
        if os.path.ismount(folder):
            return
        time.sleep(_POLL_S)
    last_line = (log.read_text().strip().splitlines() or ["it said nothing"])[-1]
    raise ServerError(f"{folder} cannot be mounted: {last_line}")
