"""One run: warm-up, steady state, memory."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain, repeat

import numpy as np
import pytest

from netpipe.clock import Clock
from netpipe.errors import LoaderFailedError, MisuseError
from netpipe.jobs.heartbeat import UNWATCHED, Watch
from netpipe.jobs.processes import ProcessTree
from netpipe.measuring.loader_puller import LoaderFactory, Puller
from netpipe.throughput import run as runs
from netpipe.throughput.figures import Tally
from netpipe.throughput.run import LoaderRun
from tests.fakes import FakeClock

Batch = dict[str, np.ndarray[tuple[int, ...], np.dtype[np.int32]]]


def batch_of(tokens: int) -> Batch:
    """Return a batch of ten slots."""
    inputs = np.arange(10, dtype=np.int32)
    return {"inputs": inputs, "inputs_segmentation": (inputs < tokens).astype(np.int32)}


def run(loader: LoaderFactory, seconds: float, clock: Clock, watch: Watch = UNWATCHED) -> Tally:
    """Measure a loader, then close it."""
    with ExitStack() as closing:
        running = LoaderRun(loader, clock, closing, watch, seconds)
        running.leave_buffered_out(seconds)
        running.count(seconds)
        return running.tally()


def paced(clock: FakeClock, gaps_s: Iterator[float], tokens: Iterator[int]) -> LoaderFactory:
    """Make a loader whose batches have these numbers of tokens and come after these gaps."""

    def batches() -> Iterator[Batch]:
        for gap_s, count in zip(gaps_s, tokens, strict=False):
            clock.sleep(gap_s)
            yield batch_of(count)

    return batches


@pytest.fixture
def deep_buffers(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], LoaderRun]:
    """Starts a run of a loader that makes a batch in 10 ms, and gives a buffered one in 3 ms."""

    def start(most: int) -> LoaderRun:
        given, made_at_s = 0, clock()

        def gaps_s() -> Iterator[float]:
            nonlocal given, made_at_s
            while True:
                made_at_s = max(made_at_s, clock() - most * 0.010) + 0.010
                given += 1
                yield max(0.003, made_at_s - clock())

        def children_cpu_s(_: ProcessTree) -> float:
            return given * 0.010 + min(most * 0.010, max(0.0, clock() - made_at_s))

        monkeypatch.setattr(ProcessTree, "children_cpu_s", children_cpu_s)
        monkeypatch.setattr(ProcessTree, "worker_cpu_s", lambda _: {1: 0.0})
        monkeypatch.setattr(ProcessTree, "worker_pids", (1,))
        return LoaderRun(paced(clock, gaps_s(), repeat(10)), clock, ExitStack(), UNWATCHED, 1.0)

    return start


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """The clock; reading the memory takes 0.25 s and reads no process."""
    clock = FakeClock()
    sizes = chain([5, 9, 7], repeat(6))

    def read_memory() -> tuple[int, int]:
        clock.sleep(0.25)
        size = next(sizes)
        return size, 20 - size

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
    """A buffer of 100 batches is drained before the clock starts."""
    gaps_s = chain([3.0], repeat(0.01, 100), repeat(0.25))
    tally = run(paced(clock, gaps_s, repeat(10)), 4.0, clock)
    assert tally.batches / tally.wall_s == 4
    assert tally.first_batch_s == 3.0


def test_restarts_are_left_out(clock: FakeClock) -> None:
    """A loader that ends is started again; its start does not count."""

    def epoch() -> Iterator[Batch]:
        return iter(paced(clock, chain([3.0], repeat(0.25, 7)), repeat(10))())

    tally = run(epoch, 8.0, clock)
    assert tally.batches / tally.wall_s == 4


@pytest.mark.parametrize(("batches", "start_s"), [(60, 0.3), (200, 0.6), (400, 2.0)])
def test_batches_made_while_an_epoch_starts_do_not_count(
    clock: FakeClock, batches: int, start_s: float
) -> None:
    """A worker makes a batch in 10 ms, into buffers that hold a whole epoch."""

    def epoch() -> Iterator[Batch]:
        began_s = clock()
        clock.sleep(start_s)
        for number in range(1, batches + 1):
            clock.sleep(max(0.0005, began_s + 0.010 * number - clock()))
            yield batch_of(10)

    tally = run(epoch, 4.0, clock)
    assert tally.batches / tally.wall_s == pytest.approx(100, rel=0.02)


@pytest.mark.parametrize("batches", [8, 40])
def test_the_cost_of_restarts_is_left_out(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    """Neither the ends of epochs of known length nor that of the first one add to the cost."""
    cpu_s, read = 0.0, 0

    def epoch() -> Iterator[Batch]:
        nonlocal cpu_s, read
        cpu_s, read = cpu_s + 100.0, read + 1000
        for batch in paced(clock, repeat(0.25, batches), repeat(10))():
            cpu_s, read = cpu_s + 0.125, read + 10
            yield batch

    monkeypatch.setattr(ProcessTree, "cpu_s", lambda _: cpu_s)
    monkeypatch.setattr(runs, "bytes_read", lambda _: {1: read})
    tally = run(epoch, 8.0, clock)
    assert tally.batches / tally.wall_s == 4
    assert tally.wall_s >= 4.0
    assert tally.cpu_s / tally.batches == pytest.approx(0.125, abs=0.01)
    assert tally.bytes_read == 10 * tally.batches


def test_batches_made_during_a_start_do_not_count(clock: FakeClock) -> None:
    """Workers fill their buffers before the first batch of an epoch arrives."""

    def epoch() -> Iterator[Batch]:
        return iter(paced(clock, chain([0.5], repeat(0.01, 7), repeat(0.25, 24)), repeat(10))())

    tally = run(epoch, 8.0, clock)
    assert tally.batches / tally.wall_s == pytest.approx(4, rel=0.05)


@pytest.mark.parametrize("batches", [2, 3])
def test_an_epoch_may_be_shorter_than_a_group(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch, batches: int
) -> None:
    """A part of a group is counted, so that no start is."""
    cpu_s = 0.0

    def epoch() -> Iterator[Batch]:
        nonlocal cpu_s
        cpu_s += 100.0
        yield from paced(clock, repeat(0.25, batches), repeat(10))()

    monkeypatch.setattr(ProcessTree, "cpu_s", lambda _: cpu_s)
    monkeypatch.setattr(Puller, "group", 4)
    tally = run(epoch, 4.0, clock)
    assert tally.cpu_s < 1
    assert tally.batches / tally.wall_s == 4


def test_a_loader_that_never_settles_is_measured(clock: FakeClock) -> None:
    """The warm-up ends when it has taken as long as the measurement."""
    gaps_s = (0.001 * 1.2**n for n in range(1000))
    tally = run(paced(clock, gaps_s, repeat(10)), 1.0, clock)
    assert tally.wall_s >= 1.0


def test_a_slow_loader_gives_whole_groups(clock: FakeClock) -> None:
    """If a batch takes longer than the measurement, one group of two is measured."""
    tally = run(paced(clock, repeat(6.0), repeat(10)), 4.0, clock)
    assert (tally.batches, tally.wall_s) == (2, 12.0)


def test_a_loader_without_tokens_is_refused(clock: FakeClock) -> None:
    """A loader that gives only padding is refused."""
    with pytest.raises(MisuseError, match="found none in 16"):
        run(paced(clock, repeat(0.25), repeat(0)), 4.0, clock)


class Closable:
    """An iterator that notes that it was closed.

    Args:
        batches: The batches to give.
    """

    def __init__(self, batches: Iterator[Batch]) -> None:
        self._batches = batches
        self.closed = False

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        return next(self._batches)

    def close(self) -> None:
        """Note the call."""
        self.closed = True


def failing() -> Iterator[Batch]:
    """Give a batch, then fail."""
    yield batch_of(1)
    raise OSError("disk gone")


def test_a_loader_is_closed(clock: FakeClock) -> None:
    """A loader is closed after its run, even if it failed."""
    steady, broken = Closable(iter(paced(clock, repeat(0.1), repeat(1))())), Closable(failing())
    run(lambda: steady, 1.0, clock)
    with pytest.raises(LoaderFailedError, match="disk gone"):
        run(lambda: broken, 1.0, clock)
    assert steady.closed
    assert broken.closed


def test_the_warm_up_ends_when_times_agree_closely(clock: FakeClock) -> None:
    """After looks of four batches each, at 0.2, 0.23 and 0.23 s."""
    gaps_s = chain([0.2] * 5, repeat(0.23))
    running = LoaderRun(paced(clock, gaps_s, repeat(10)), clock, ExitStack(), UNWATCHED, 4.0)
    assert running.puller.pulled == 1 + 3 * 4


def test_the_rounds_begin_after_the_first_batch(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch is notified between the first batch and the steady state."""
    begun_s: list[float] = []
    monkeypatch.setattr(type(UNWATCHED), "begin_rounds", lambda _: begun_s.append(clock()))
    run(paced(clock, chain([3.0], repeat(0.25)), repeat(10)), 4.0, clock)
    assert begun_s == [3.0]


def test_a_turn_counts_what_the_loader_makes(
    clock: FakeClock, deep_buffers: Callable[[int], LoaderRun]
) -> None:
    """Batches that were made while the other side had its turn are pulled first, uncounted."""
    running = deep_buffers(500)
    for _ in range(2):
        clock.sleep(10.0)
        running.take_turn(0.5)
    tally = running.tally()
    assert tally.batches / tally.wall_s == pytest.approx(100, rel=0.05)


def test_turns_may_be_longer_than_epochs(clock: FakeClock) -> None:
    """A turn that begins at the end of an epoch begins the next one, to have batches to drain."""

    def epoch() -> Iterator[Batch]:
        return iter(paced(clock, chain([0.7], repeat(0.02, 19)), repeat(10))())

    running = LoaderRun(epoch, clock, ExitStack(), UNWATCHED, 1.0)
    for _ in range(4):
        running.take_turn(0.5)
    tally = running.tally()
    assert tally.batches / tally.wall_s == pytest.approx(50)


def test_a_turn_does_not_count_what_buffers_give(
    clock: FakeClock, deep_buffers: Callable[[int], LoaderRun]
) -> None:
    """Buffers that cannot be drained in time end the comparison, because they hide the speed."""
    running = deep_buffers(50_000)
    clock.sleep(100.0)
    running.take_turn(0.5)
    with pytest.raises(MisuseError, match="buffers must run empty"):
        running.tally()


@pytest.mark.parametrize("batch", [{"input_ids": [[1, 2], [3, 4]]}, ["a text", "another"]])
def test_a_batch_without_an_array_is_misuse(clock: FakeClock, batch: object) -> None:
    """Lists would count as one token each, and counting them would take most of the time."""

    def batches() -> Iterator[object]:
        while True:
            clock.sleep(0.01)
            yield batch

    with pytest.raises(MisuseError, match=f"must give arrays.*found {type(batch).__name__}"):
        run(batches, 1.0, clock)
