"""One run: warm-up, steady state, memory."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain, repeat

import numpy as np
import pytest

from netpipe.clock import Clock
from netpipe.errors import LoaderFailedError, MisuseError
from netpipe.measuring.loader_puller import LoaderFactory
from netpipe.session.heartbeat import UNWATCHED, Watch
from netpipe.throughput import run as runs
from netpipe.throughput.figures import Tally
from netpipe.throughput.footprint import Memory
from tests.fakes import FakeClock

Batch = dict[str, np.ndarray[tuple[int, ...], np.dtype[np.int32]]]


def batch_of(tokens: int) -> Batch:
    """A batch of ten places."""
    return {"inputs_segmentation": (np.arange(10) < tokens).astype(np.int32)}


def run(loader: LoaderFactory, seconds: float, clock: Clock, watch: Watch = UNWATCHED) -> Tally:
    """Measure a loader, then close it."""
    with ExitStack() as closing:
        return runs.run(loader, seconds, clock, closing, watch)


def paced(clock: FakeClock, gaps_s: Iterator[float], tokens: Iterator[int]) -> LoaderFactory:
    """Make a loader whose batches have so many tokens and come after these gaps."""

    def batches() -> Iterator[Batch]:
        for gap_s, count in zip(gaps_s, tokens, strict=False):
            clock.sleep(gap_s)
            yield batch_of(count)

    return batches


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The clock; no process is looked at, and each look at the memory takes a while."""
    clock = FakeClock()
    sizes = chain([5, 9, 7], repeat(6))

    def read_memory() -> Memory:
        clock.sleep(0.25)
        size = next(sizes)
        return Memory(size, 20 - size)

    monkeypatch.setattr(runs, "read_memory", read_memory)
    return clock


def test_a_steady_loader_is_counted(clock: FakeClock) -> None:
    """Four batches a second, and every other one is half padding."""
    tally = run(paced(clock, repeat(0.25), chain.from_iterable(repeat((10, 5)))), 4.0, clock)
    assert (tally.wall_s, tally.batches, tally.tokens, tally.slots) == (4.0, 16, 120, 160)
    assert tally.worst_padding_fraction == 0.5
    assert tally.first_batch_s == 0.25
    assert 0 < tally.cpu_s < 60
    assert (tally.peak_pss_bytes, tally.peak_rss_bytes) == (9, 15)


def test_batches_made_before_the_clock_do_not_count(clock: FakeClock) -> None:
    """A buffer of 100 batches is empty before the time starts, and the loader's own pace counts."""
    gaps_s = chain([3.0], repeat(0.01, 100), repeat(0.25))
    tally = run(paced(clock, gaps_s, repeat(10)), 4.0, clock)
    assert tally.batches / tally.wall_s == 4
    assert tally.first_batch_s == 3.0


def test_a_start_is_no_part_of_the_steady_state(clock: FakeClock) -> None:
    """A loader that ends is started again, and its own pace counts."""

    def epoch() -> Iterator[Batch]:
        return iter(paced(clock, chain([3.0], repeat(0.25, 7)), repeat(10))())

    tally = run(epoch, 8.0, clock)
    assert tally.batches / tally.wall_s == 4


def test_time_between_two_pulls_belongs_to_the_run(clock: FakeClock) -> None:
    """Only restarts are left out; the clock moves on whenever it is read."""

    class AdvancingClock(FakeClock):
        def __call__(self) -> float:
            clock.sleep(0.01)
            return clock()

    tally = run(paced(clock, repeat(0.25), repeat(10)), 4.0, AdvancingClock())
    assert tally.wall_s >= 4.0


def test_a_loader_that_never_settles_is_measured_all_the_same(clock: FakeClock) -> None:
    """The warm-up ends when it has taken as long as the measurement."""
    gaps_s = (0.001 * 1.2**n for n in range(1000))
    tally = run(paced(clock, gaps_s, repeat(10)), 1.0, clock)
    assert tally.wall_s >= 1.0


def test_a_slow_loader_gives_whole_groups(clock: FakeClock) -> None:
    """Where a batch takes longer than the time that is asked for, two are measured."""
    tally = run(paced(clock, repeat(6.0), repeat(10)), 4.0, clock)
    assert (tally.batches, tally.wall_s) == (2, 12.0)


def test_a_loader_without_tokens_is_refused(clock: FakeClock) -> None:
    """Padding alone has no speed."""
    with pytest.raises(MisuseError, match="found none in 16"):
        run(paced(clock, repeat(0.25), repeat(0)), 4.0, clock)


class Closable:
    """An iterator that is let go only when it is closed.

    Args:
        batches: What it gives.
    """

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches
        self.closed = False

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        return next(self._batches)

    def close(self) -> None:
        """Let it go."""
        self.closed = True


def failing() -> Iterator[Batch]:
    """Give a batch, then fail."""
    yield batch_of(1)
    raise OSError("disk gone")


def test_a_loader_is_closed(clock: FakeClock) -> None:
    """Its workers end with it, before its process does; one that fails is no exception."""
    steady, broken = Closable(iter(paced(clock, repeat(0.1), repeat(1))())), Closable(failing())
    run(lambda: steady, 1.0, clock)
    with pytest.raises(LoaderFailedError, match="disk gone"):
        run(lambda: broken, 1.0, clock)
    assert steady.closed
    assert broken.closed


def test_the_time_for_hangs_starts_with_the_first_batch(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever watches hears that the start-up is over, and before the steady state comes."""
    begun_s: list[float] = []
    monkeypatch.setattr(type(UNWATCHED), "begin_rounds", lambda _: begun_s.append(clock()))
    run(paced(clock, chain([3.0], repeat(0.25)), repeat(10)), 4.0, clock)
    assert begun_s == [3.0]
