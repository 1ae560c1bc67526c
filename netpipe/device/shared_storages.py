"""The stand-ins for storages that a process shares with its child processes."""

import os
from typing import Final

SHARED_STORAGES: Final = "NETPIPE_STORAGES"
"""The environment variable that passes stand-ins to children; sessions start without it."""


def list_shared_storages() -> dict[str, str]:
    """Return the file of each stand-in that this process made or inherited, by name."""
    pairs = (line.split() for line in os.environ.get(SHARED_STORAGES, "").splitlines())
    return {name: path for name, path in pairs if os.path.exists(path)}  # noqa: PTH110  # in /proc


def share_storage(name: str, path: str) -> None:
    """Register a stand-in so that this process and its future children can find it by name."""
    shared = list_shared_storages() | {name: path}
    os.environ[SHARED_STORAGES] = "\n".join(map(" ".join, shared.items()))
