"""Time: injected everywhere, so that tests can hold it."""

import time
from typing import Protocol


class Clock(Protocol):
    """Seconds on a monotonic clock, and a way to let some pass."""

    def __call__(self) -> float:
        """Return the seconds since an arbitrary, fixed moment."""
        ...

    def sleep(self, duration_s: float) -> None:
        """Return after `duration_s` seconds."""
        ...


class MonotonicClock:
    """The machine's clock."""

    def __call__(self) -> float:
        """Return the seconds since the machine started."""
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        """Return after `duration_s` seconds."""
        time.sleep(duration_s)


class RecordedClock:
    """A clock that moves only by recorded durations.

    Handed to a timing tool as its timer, it makes the tool see durations measured elsewhere.

    Attributes:
        __name__: What the tool prints as the name of its timer.
    """

    def __init__(self) -> None:
        self.__name__ = "netpipe.session"
        self._now_s = 0.0

    def __call__(self) -> float:
        """Return the sum of all durations played so far, in seconds."""
        return self._now_s

    def advance(self, duration_s: float) -> None:
        """Let `duration_s` seconds pass."""
        self._now_s += duration_s
