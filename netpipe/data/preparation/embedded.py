"""The embedded default data set, generated once into a cache."""

import fcntl
import os
import shutil
from pathlib import Path

from netpipe.data.formats.index import INDEX_NAME, is_index
from netpipe.data.preparation.synthetic import generate

# The number changes whenever `generate` makes other data.
_NAME = "netpipe-embedded-data-2"


def embedded_data(cache: Path) -> Path:
    """Return the default data set in a cache folder, after generating it if it is missing.

    If several processes need it, one generates it and the others wait.
    """
    target = cache / _NAME
    if not is_index(target / INDEX_NAME):
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / f"{_NAME}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not is_index(target / INDEX_NAME):
                shutil.rmtree(target, ignore_errors=True)
                generate(target)
    return target


def data_of_user() -> Path:
    """Return the data in `NETPIPE_DATA`, or the default data set in the user's cache folder."""
    chosen = os.environ.get("NETPIPE_DATA")
    if chosen:
        return Path(chosen)
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return embedded_data(Path(caches) / "netpipe")
