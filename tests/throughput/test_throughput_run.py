"""One run: warm-up, steady state, memory."""

from collections.abc import Iterator
from itertools import chain, repeat

import numpy as np
import pytest

from netpipe.harness.errors import LoaderFailedError, MisuseError
from netpipe.harness.pull import LoaderFactory
from netpipe.throughput import run as runs
from netpipe.throughput.footprint import Memory
from netpipe.throughput.run import run
from tests.harness.fakes import FakeClock

Batch = dict[str, np.ndarray[tuple[int, ...], np.dtype[np.int32]]]


def batch_of(tokens: int) -> Batch:
    """A batch of ten places."""
    return {"inputs_segmentation": (np.arange(10) < tokens).astype(np.int32)}


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

    def memory_now() -> Memory:
        clock.sleep(0.25)
        size = next(sizes)
        return Memory(size, 2 * size)

    monkeypatch.setattr(runs, "memory_now", memory_now)
    return clock


def test_a_steady_loader_is_counted(clock: FakeClock) -> None:
    """Four batches a second, and every other one is half padding."""
    tally = run(paced(clock, repeat(0.25), chain.from_iterable(repeat((10, 5)))), 4.0, clock)
    assert (tally.wall_s, tally.batches, tally.tokens, tally.slots) == (4.0, 16, 120, 160)
    assert tally.worst_padding_fraction == 0.5
    assert tally.first_batch_s == 0.25
    assert 0 < tally.cpu_s < 60
    assert (tally.peak_pss_bytes, tally.peak_rss_bytes) == (9, 18)


def test_batches_made_before_the_clock_do_not_count(clock: FakeClock) -> None:
    """A buffer of 100 batches is empty before the time starts, and the loader's own pace counts."""
    gaps_s = chain([3.0], repeat(0.01, 100), repeat(0.25))
    tally = run(paced(clock, gaps_s, repeat(10)), 4.0, clock)
    assert tally.batches / tally.wall_s == 4
    assert tally.first_batch_s == 3.0


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
    with pytest.raises(MisuseError, match=r"must give tokens; found none in 16 batches"):
        run(paced(clock, repeat(0.25), repeat(0)), 4.0, clock)


def test_a_loader_that_fails_is_closed(clock: FakeClock) -> None:
    """Its failure is told, and what it holds is let go."""
    closed = []

    def failing() -> Iterator[Batch]:
        try:
            yield batch_of(1)
            raise OSError("disk gone")
        finally:
            closed.append(True)

    with pytest.raises(LoaderFailedError, match="disk gone"):
        run(failing, 4.0, clock)
    assert closed == [True]


def test_a_loader_that_is_measured_is_closed(clock: FakeClock) -> None:
    """Its workers end with it, before its process does."""
    closed = []

    def endless() -> Iterator[Batch]:
        try:
            while True:
                clock.sleep(0.1)
                yield batch_of(1)
        finally:
            closed.append(True)

    run(endless, 1.0, clock)
    assert closed == [True]
