"""Clocks, which are injected so that tests can control time."""

import time


class Clock:
    """A monotonic clock in seconds: the machine's, unless a subclass overrides it."""

    def __call__(self) -> float:
        """Return the seconds since an arbitrary, fixed moment."""
        return time.monotonic()

    def sleep(self, duration_s: float) -> None:
        """Return after `duration_s` seconds."""
        time.sleep(duration_s)


class RecordedClock:
    """A clock that advances only by recorded durations.

    A tool that uses this clock as its timer sees durations that were measured elsewhere.
    """

    def __init__(self) -> None:
        self.__name__ = "netpipe.session"  # the tool prints this name
        self._now_s = 0.0

    def __call__(self) -> float:
        """Return the sum of all durations so far, in seconds."""
        return self._now_s

    def advance(self, duration_s: float) -> None:
        """Advance the clock by `duration_s` seconds."""
        self._now_s += duration_s
