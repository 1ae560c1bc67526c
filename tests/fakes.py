"""A fake clock, and fake processes that follow a script."""

from collections.abc import Iterable

from netpipe.clock import Clock


class FakeClock(Clock):
    """A clock that stands still between calls of `sleep`."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Return the seconds so far."""
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        """Move the clock by `duration_s` seconds."""
        self.now_s += duration_s


class FakeProcesses:
    """Processes of a loader whose CPU time follows a script.

    Args:
        children: The number of processes.
        use_s: CPU seconds used before each reading, 0 after the last one.
    """

    def __init__(self, children: int = 0, use_s: Iterable[float] = ()) -> None:
        self.pids = self.worker_pids = tuple(range(1, children + 1))
        self._use_s = iter(use_s)
        self._used_s = 0.0

    def cpu_s(self) -> float:
        """Return the CPU seconds used so far."""
        self._used_s += next(self._use_s, 0.0)
        return self._used_s
