"""Emptying and filling the buffers of a loader, on a clock that the loader itself moves."""

import time
from collections.abc import Iterator
from itertools import chain, cycle, repeat

import pytest

from netpipe.measuring.loader_puller import wait_until_quiet
from tests.fakes import FakeClock
from tests.measuring.simulated import AMPLE_S, start_puller

BUFFERED_S, STEADY_S = 0.001, 0.1
ENOUGH_S = 15 * STEADY_S  # for a sure judgement


def buffered(count: int) -> Iterator[float]:
    """Return the gaps of a loader whose buffers hold `count` batches."""
    return chain(repeat(BUFFERED_S, count), repeat(STEADY_S))


@pytest.mark.parametrize("count", [0, 40, 400])
def test_a_drain_ends_when_the_buffers_are_empty(clock: FakeClock, count: int) -> None:
    """Pulling stops soon after the last buffered batch, and returns their number."""
    puller = start_puller(clock, buffered(count))
    drained, lent = puller.drain(STEADY_S, STEADY_S, ENOUGH_S, limit_s=100.0)
    assert drained
    assert lent == pytest.approx(count * (1 - BUFFERED_S / STEADY_S), abs=2)
    assert puller.pull()[1] == pytest.approx(STEADY_S)


def test_a_stutter_does_not_end_a_drain(clock: FakeClock) -> None:
    """One slow batch among buffered ones does not count as an empty buffer."""
    gaps_s = chain(repeat(BUFFERED_S, 30), [5.0], buffered(30))
    puller = start_puller(clock, gaps_s)
    assert puller.drain(STEADY_S, STEADY_S, ENOUGH_S, limit_s=100.0)[0]
    assert puller.pull()[1] == pytest.approx(STEADY_S)


def test_draining_compares_with_the_typical_load_time(clock: FakeClock) -> None:
    """The mean of a stuttering loader exceeds most of its batches, so the median is compared."""
    stutters = cycle([0.004] * 13 + [0.080])
    puller = start_puller(clock, chain(repeat(0.0001, 100), stutters))
    drained, lent = puller.drain(0.0094, 0.004, ENOUGH_S, limit_s=100.0)
    assert drained
    assert lent == pytest.approx(100, abs=15)


def test_a_drain_gives_up_at_its_limit(clock: FakeClock) -> None:
    """Buffers too large to be emptied in time are reported as not drained."""
    puller = start_puller(clock, repeat(BUFFERED_S))
    drained, lent = puller.drain(STEADY_S, STEADY_S, ENOUGH_S, limit_s=1.0)
    assert not drained
    assert lent == pytest.approx(1000, abs=2)
    assert clock() == pytest.approx(1.0, abs=4 * BUFFERED_S)


def test_no_more_comes_out_of_buffers_than_was_made(clock: FakeClock) -> None:
    """A loader that gives more batches has become faster, and is drained after a block's time."""
    fast_s = 0.2 * STEADY_S
    gaps_s = chain(repeat(STEADY_S, 11), repeat(BUFFERED_S, 40), repeat(fast_s))
    puller = start_puller(clock, gaps_s)
    for _ in range(10):
        puller.pull()
    most = puller.bound_buffered(STEADY_S)
    assert most == pytest.approx(11, abs=1)
    started_s = clock()
    assert puller.drain(STEADY_S, STEADY_S, ENOUGH_S, limit_s=100.0, most_buffered=most)[0]
    assert clock() - started_s == pytest.approx(ENOUGH_S, abs=2 * fast_s)
    assert puller.pull()[1] == pytest.approx(fast_s)


def test_a_loader_that_has_become_slower_is_drained(clock: FakeClock) -> None:
    """The buffers can hold only batches made since the last drain."""
    gaps_s = chain(repeat(BUFFERED_S, 501), repeat(STEADY_S, 10), buffered(10))
    puller = start_puller(clock, gaps_s)
    for _ in range(500):
        puller.pull()
    assert puller.drain(STEADY_S, STEADY_S, ENOUGH_S, limit_s=100.0)[0]
    clock.sleep(1.0)
    most = puller.bound_buffered(STEADY_S)
    assert puller.drain(STEADY_S, STEADY_S, ENOUGH_S, limit_s=100.0, most_buffered=most)[0]
    assert puller.pull()[1] == pytest.approx(STEADY_S)


@pytest.mark.parametrize(
    ("enough_s", "batches"), [(0.3, 2), (3.9, 2), (4.0, 4), (9.9, 8), (10.0, 10), (99.0, 10)]
)
def test_a_slow_loader_is_drained_with_few_batches(
    clock: FakeClock, enough_s: float, batches: int
) -> None:
    """Batches of a second each are pulled for the allowed time, and at least one burst."""
    puller = start_puller(clock, chain([0.0], repeat(1.0)))
    assert puller.drain(1.0, 1.0, enough_s, limit_s=20.0) == (True, 0.0)
    assert clock() == batches


@pytest.mark.parametrize(
    ("use_s", "looks"),
    [
        ([], 1),
        ([0.0, 0.0], 1),
        ([0.0, 0.03, 0.03, 0.001], 3),
        ([0.03] * 1000, 17),
    ],
)
def test_waiting_for_full_buffers_ends_when_the_loader_is_quiet(
    clock: FakeClock, use_s: list[float], looks: int
) -> None:
    """Waiting ends when the loader uses next to no CPU, or at its limit of half a second."""
    puller = start_puller(clock, repeat(0.0), use_s=use_s)
    puller.wait_for_full_buffers(limit_s=0.5)
    assert clock() == pytest.approx(looks * 0.03)


def test_reading_the_clocks_is_no_work_of_the_loader(clock: FakeClock) -> None:
    """Reading takes this thread longer than what counts as quiet; it waited for the whole limit."""
    readings = 0

    def read_slowly() -> float:
        nonlocal readings
        readings += 1
        used_s = time.thread_time()
        while time.thread_time() < used_s + 0.02:
            pass
        return used_s

    wait_until_quiet(read_slowly, clock, AMPLE_S)
    assert readings == 2
