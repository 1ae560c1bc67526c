"""The embedded default data set: generated once into a cache, then found there."""

import fcntl
import os
import shutil
from pathlib import Path

from netpipe.data.formats.index import INDEX_NAME, is_index
from netpipe.data.preparation.synthetic import generate

_NAME = "netpipe-embedded-data-2"  # a new number when `generate` makes something else


def embedded_data(cache: Path) -> Path:
    """Return the default data set in a cache folder; generated when not there, never half made.

    Of several processes one generates it, beside its place, and the others wait and use it.
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
