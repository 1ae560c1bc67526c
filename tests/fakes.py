"""A clock that tests hold, and loaders that move it."""

from collections.abc import Iterable, Iterator


class FakeClock:
    """Seconds that pass only when they are told to."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Return the seconds that have passed."""
        return self.now_s

    def sleep(self, duration_s: float) -> None:
        """Let `duration_s` seconds pass."""
        self.now_s += duration_s


class FakeProcesses:
    """Loader processes whose CPU time follows a script.

    Args:
        children: How many there are.
        use_s: CPU seconds used between one reading and the next; nothing is used after its end.
    """

    def __init__(self, children: int = 0, use_s: Iterable[float] = ()) -> None:
        self.pids = tuple(range(1, children + 1))
        self._use_s = iter(use_s)
        self._used_s = 0.0

    def cpu_s(self) -> float:
        """Return the CPU seconds used so far."""
        self._used_s += next(self._use_s, 0.0)
        return self._used_s


def paced(clock: FakeClock, gaps_s: Iterable[float]) -> Iterator[int]:
    """Give 0, 1, 2, ..., each after a gap on the clock."""
    for number, gap_s in enumerate(gaps_s):
        clock.sleep(gap_s)
        yield number


def ahead(clock: FakeClock, load_s: float, most: int, take_s: float = 0.0) -> Iterator[float]:
    """Give the gaps of a loader that makes batches ahead, while whoever pulls does other things.

    Args:
        clock: Tells how long the loader was left alone.
        load_s: Seconds in which it makes a batch.
        most: Batches that its buffer holds.
        take_s: Seconds that it takes to get a batch out of the buffer.
    """
    made_s = clock()
    while True:
        made_s = max(made_s, clock() - most * load_s) + load_s
        yield max(take_s, made_s - clock())
