"""Importing this module lets Grain's worker processes end without a deadlock."""

from time import monotonic
from typing import Any, Final

from grain._src.python.dataset.transformations import process_prefetch

_READING_S: Final = 15.0  # Grain waits 25 s more for a worker, then kills it.
_ITERATOR: Final = process_prefetch.ProcessPrefetchDatasetIterator
_STOP: Final = _ITERATOR._stop_prefetch  # noqa: SLF001  # Grain has no public way


def _read_and_stop(self: Any) -> None:
    """Read a worker's last batches until it has ended, then stop as Grain does.

    Grain 0.2.18 reads only once, and a worker that sends more than a pipe holds waits for a reader.
    """
    worker, until_s = self._prefetch_process, monotonic() + _READING_S
    self._prefetch_should_stop.set()
    while worker is not None and worker.is_alive() and monotonic() < until_s:
        process_prefetch._clear_queue_and_maybe_unlink_shm(self._buffer)  # noqa: SLF001
        worker.join(0.05)
    _STOP(self)


_ITERATOR._stop_prefetch = _read_and_stop  # noqa: SLF001
