"""Copies of elements that netpipe makes for an intervention, and the time that they take."""

import threading
import time
from copy import deepcopy
from typing import TypeVar

Value = TypeVar("Value")


class _Copying(threading.local):
    cpu_s = 0.0


_COPYING = _Copying()


def copying_s() -> float:
    """Return the CPU seconds that this thread has spent in `copied`."""
    return _COPYING.cpu_s


def copied(value: Value) -> Value:
    """Return a deep copy; a lane whose own thread makes it leaves out the time that it takes.

    Only for a loader that does nothing meanwhile: workers and other threads would make batches in
    time that is not counted.
    """
    started_s = time.thread_time()
    try:
        return deepcopy(value)
    finally:
        _COPYING.cpu_s += time.thread_time() - started_s
