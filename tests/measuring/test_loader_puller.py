"""Pulling a loader on a clock that the loader itself moves."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from threading import Event, Thread
from typing import Any

import pytest

from netpipe.errors import InputError, LoaderEndedError, LoaderFailedError, MisuseError
from netpipe.jobs.heartbeat import Watch
from netpipe.measuring import loader_puller
from netpipe.measuring.loader_puller import _MAX_BATCHES, PulledBatches, Puller
from tests.fakes import FakeClock, FakeProcesses
from tests.measuring.simulated import AMPLE_S, BATCH, paced, start_puller


def test_pulling_flat_out_notes_every_gap(clock: FakeClock) -> None:
    """A block has the gap of each batch, and the CPU time of all processes."""
    puller = start_puller(clock, [0.0, 0.1, 0.3, 0.1, 0.3], use_s=[5.0, 0.6])
    block = puller.pull_flat_out(0.5)
    assert block.gaps_s == pytest.approx((0.1, 0.3, 0.1, 0.3))
    assert block.s_per_batch == pytest.approx(0.2)
    assert block.cpu_s_per_batch == pytest.approx(0.15)


def test_reading_cpu_time_takes_nothing_from_a_block(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of a block begins after the reading."""
    puller = start_puller(clock, repeat(0.125))

    def read_cpu_s() -> float:
        clock.sleep(5.0)
        return 0.0

    monkeypatch.setattr(puller.processes, "cpu_s", read_cpu_s)
    assert len(puller.pull_flat_out(0.6).gaps_s) == 6
    assert len(puller.pull_batches(6, limit_s=1.0).gaps_s) == 6


@pytest.mark.parametrize(
    ("workers", "enough_s", "batches"),
    [(0, 0.1, 2), (0, 0.2, 4), (0, 0.6, 6), (4, 0.2, 4), (4, 0.3, 8), (4, 1.1, 12), (4, 2.1, 20)],
)
def test_pulling_flat_out_takes_its_time(
    clock: FakeClock, workers: int, enough_s: float, batches: int
) -> None:
    """A block ends with a whole burst; one is enough if it takes twice the time."""
    puller = start_puller(clock, repeat(0.125), children=workers)
    assert len(puller.pull_flat_out(enough_s).gaps_s) == batches
    assert puller.pull()[0] == batches + 1


@pytest.mark.parametrize(
    ("whole_bursts", "enough_s", "batches"),
    [(False, 0.5, 4), (True, 0.5, 42), (True, 0.06, 12), (True, 5.0, 92)],
)
def test_a_block_holds_several_bursts(
    clock: FakeClock, whole_bursts: bool, enough_s: float, batches: int
) -> None:
    """With ten batches every 0.5 s, a block lasts five waits, up to ten times its time."""
    puller = start_puller(clock, [0.0, *([0.5] + 9 * [0.0]) * 12])
    assert len(puller.pull_flat_out(enough_s, whole_bursts=whole_bursts).gaps_s) == batches


def test_pulling_a_free_loader_ends_after_a_number_of_batches(clock: FakeClock) -> None:
    """A loader that takes no time does not block the measurement."""
    assert len(start_puller(clock, repeat(0.0)).pull_flat_out(1.0).gaps_s) == _MAX_BATCHES


@pytest.mark.parametrize(("workers", "group"), [(0, 2), (2, 2), (4, 4), (100, 16)])
def test_a_group_holds_a_batch_of_every_worker(clock: FakeClock, workers: int, group: int) -> None:
    """Pulls are averaged over a burst of one batch from each worker."""
    assert start_puller(clock, repeat(0.1), children=workers).group == group


def test_a_finite_loader_is_started_again(clock: FakeClock) -> None:
    """A restart is outside the waits, and the first batch counts as given."""
    puller = start_puller(clock, [3.0, 0.5, 0.25])
    assert (puller.first_batch, puller.first_batch_s, puller.pulled) == (0, 3.0, 1)
    assert [puller.pull() for _ in range(5)] == [(1, 0.5), (2, 0.25), (1, 0.5), (2, 0.25), (1, 0.5)]
    assert clock() == 3 * 3.0 + 2.0
    assert (puller.pulled, puller.restarts) == (8, 2)


def test_an_epoch_is_as_long_as_the_last_one(clock: FakeClock) -> None:
    """The length of an epoch is unknown until the loader has ended once."""
    puller = start_puller(clock, [0.1] * 5)
    assert puller.epoch_has(1000)
    for _ in range(5):
        puller.pull()
    # The sixth is the first of an epoch, which is not a wait, so the seventh was pulled too.
    assert (puller.epoch_batches, puller.pulled) == (5, 7)
    assert puller.epoch_has(3)
    assert not puller.epoch_has(4)


@pytest.mark.parametrize(
    ("batches", "restarts", "left"), [(3, 1, 3), (4, 2, 4), (5, 2, 4), (99, 2, 4)]
)
def test_the_next_epoch_begins_when_batches_run_short(
    clock: FakeClock, batches: int, restarts: int, left: int
) -> None:
    """The next epoch begins once this one has too few batches left and a new one has more."""
    puller = start_puller(clock, [0.1] * 5)
    puller.ensure_epoch_has(99)
    assert puller.restarts == 0
    for _ in range(5):
        puller.pull()
    for _ in range(2):
        puller.ensure_epoch_has(batches)
        assert puller.restarts == restarts
        assert puller.epoch_has(left)
        assert not puller.epoch_has(left + 1)


def test_pulling_and_draining_end_with_the_epoch(clock: FakeClock) -> None:
    """A block within an epoch takes no more batches than the epoch has."""
    puller = start_puller(clock, [0.1] * 20)
    for _ in range(20):
        puller.pull()
    puller.ensure_epoch_has(19)
    assert len(puller.pull_flat_out(100.0, in_epoch=True).gaps_s) == 18
    puller.ensure_epoch_has(19)
    assert puller.drain(100.0, 100.0, enough_s=1000.0, limit_s=1000.0) == (False, 16.0)
    assert len(puller.pull_flat_out(100.0, in_epoch=True).gaps_s) == 2
    assert puller.restarts == 3


def test_a_loader_of_one_batch_restarts_for_each(clock: FakeClock) -> None:
    """If every batch needs a start, the start counts."""
    assert start_puller(clock, [1.0]).pull() == (0, 1.0)


@dataclass
class Closable:
    """An iterator of two batches that adds to `events`, and whose close waits for `released`."""

    events: list[str]
    released: Event | None = None
    left: int = 2

    def __post_init__(self) -> None:
        self.events.append("made")

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if not self.left:
            raise StopIteration
        self.left -= 1
        return 2 - self.left

    def close(self) -> None:
        """Stop."""
        assert self.released is None or self.released.wait(AMPLE_S)
        self.events.append("closed")


def test_a_restart_stops_the_old_loader(clock: FakeClock) -> None:
    """The iterator that has ended is closed before another one is made."""
    events: list[str] = []
    puller = Puller(lambda: Closable(events), clock)
    for _ in range(2):
        puller.pull()
    assert events == ["made", "closed", "made"]


def test_a_restart_does_not_wait_forever_for_the_old_loader_to_close(
    clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers that do not stop at the end of an epoch do not stop the measurement."""
    monkeypatch.setattr(loader_puller, "_CLOSE_TIMEOUT_S", 0.0)
    released = Event()
    puller = Puller(lambda: Closable([], released), clock)
    assert [puller.pull()[0] for _ in range(3)] == [2, 2, 2]
    released.set()


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (None, r"loader\(\).*iterable.*found NoneType"),
        (3, "found int"),
        (lambda: None, "found function"),
        ([], "gave no batch"),
    ],
)
def test_a_loader_must_give_batches(clock: FakeClock, made: Any, words: str) -> None:
    """A factory must return an iterable, which must not be empty."""
    with pytest.raises(MisuseError, match=words):
        Puller(lambda: made, clock)


@dataclass
class Once:
    """A factory that makes a loader of `length` batches once, and then calls `then`."""

    length: int
    then: Callable[[], Any]
    made: int = 0

    def __call__(self) -> Any:
        """Make it."""
        self.made += 1
        return range(self.length) if self.made == 1 else self.then()


def raising(error: Exception) -> Callable[[], Any]:
    """Return a function that raises."""

    def function() -> Any:
        raise error

    return function


@pytest.mark.parametrize(
    ("then", "how"),
    [
        (list, "gave none"),
        (raising(ValueError("no more")), "ValueError: no more"),
        (raising(InputError("data/", "it", "be", "gone")), "InputError: data/"),
        (lambda: 3, "found int"),
        (lambda: (1 // 0 for _ in [1]), "ZeroDivisionError"),
    ],
    ids=["empty", "factory-raises", "input-gone", "no-iterable", "first-batch-raises"],
)
def test_a_loader_that_cannot_be_started_again_has_ended(
    clock: FakeClock, then: Callable[[], Any], how: str
) -> None:
    """The error has the number of batches and the reason."""
    puller = Puller(Once(3, then), clock)
    assert [puller.pull()[0] for _ in range(2)] == [1, 2]
    with pytest.raises(LoaderEndedError, match="ended after 3 batches") as caught:
        puller.pull()
    assert how in str(caught.value)
    assert (puller.pulled, puller.restarts) == (3, 0)


@dataclass
class Listener(Watch):
    """A watch that notes its calls."""

    noted: list[Any] = field(default_factory=list)

    def note_wait(self, since_s: float | None, *, starts: bool = False) -> None:
        """Note a wait or its end."""
        self.noted.append((since_s, "starts") if starts else since_s)

    def note_workers(self, worker_pids: Sequence[int]) -> None:
        """Note that there are workers."""
        self.noted.append("workers" if isinstance(worker_pids, tuple) else worker_pids)


def test_every_wait_is_announced_and_ended(clock: FakeClock) -> None:
    """The watch is told when a batch is requested, and when it has come or failed."""

    def loader() -> Iterator[int]:
        clock.sleep(1.0)
        yield 0
        clock.sleep(2.0)
        raise OSError("disk gone")

    watch = Listener()
    puller = Puller(loader, clock, watch)
    with pytest.raises(LoaderFailedError):
        puller.pull()
    starts = (0.0, "starts")
    assert watch.noted == [starts, starts, None, "workers", 1.0, None]


def test_a_loader_that_cannot_start_is_waited_for_no_longer(clock: FakeClock) -> None:
    """The wait ends with the error."""
    watch = Listener()

    def loader() -> Iterable[int]:
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        Puller(loader, clock, watch)
    assert watch.noted[-1] is None


def test_a_loader_is_watched_from_its_making(clock: FakeClock) -> None:
    """The wait is noted before `loader()` and `iter()` are called."""
    watch = Listener()
    noted: list[Any] = []

    class Loader:
        """Copies the notes when it is made and iterated over."""

        def __init__(self) -> None:
            noted.append(list(watch.noted))

        def __iter__(self) -> Iterator[int]:
            noted.append(list(watch.noted))
            return iter([1])

    Puller(Loader, clock, watch)
    assert noted == [[(0.0, "starts")]] * 2


def test_a_restart_is_announced_as_a_start(clock: FakeClock) -> None:
    """The watch is told that the next batch may take long, and of the new workers."""
    watch = Listener()
    puller = Puller(lambda: paced(clock, [1.0, 1.0]), clock, watch)
    watch.noted.clear()
    puller.pull()
    puller.pull()
    assert watch.noted == [1.0, None, 2.0, (2.0, "starts"), "workers", None, 3.0, None]


@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (OSError("disk gone"), LoaderFailedError, "57 batches: OSError"),
        (InputError("data/", "index", "be there", "none"), InputError, r"^data/: index"),
    ],
)
def test_a_failure_of_the_loader_is_explained(
    clock: FakeClock, error: Exception, raised: type[Exception], words: str
) -> None:
    """The message has the number of batches before it; an error for the user is not wrapped."""

    def loader() -> Iterator[int]:
        yield from range(57)
        raise error

    puller = Puller(loader, clock)
    with pytest.raises(raised, match=words) as caught:
        puller.pull_flat_out(1.0)
    assert caught.value is error or caught.value.__cause__ is error


@pytest.mark.parametrize(("threads", "batches"), [(0, 16), (16, 32)])
def test_one_burst_of_reader_threads_is_not_enough(
    clock: FakeClock, threads: int, batches: int
) -> None:
    """Batches of reader threads wait for the slowest read, so a block has two bursts of them."""
    puller = start_puller(clock, repeat(0.05), children=16)
    puller._reader_threads = threads
    assert len(puller.pull_flat_out(0.25).gaps_s) == batches


def test_the_typical_load_time_is_the_median_of_bursts() -> None:
    """With two workers, the median over pairs of batches excludes stutters."""
    block = PulledBatches((0.0, 0.2, 0.0, 0.2, 0.0, 0.2, 0.0, 9.0), cpu_s=0.0, group=2)
    assert block.typical_s_per_batch == pytest.approx(0.1)
    assert block.s_per_batch > 1.0


def test_workers_and_threads_are_helpers(clock: FakeClock) -> None:
    """Those of the loader count, not those that were there before."""
    may_end = Event()
    thread = Thread(target=may_end.wait)

    def load() -> Iterator[int]:
        thread.start()
        yield from range(2)

    puller = Puller(load, clock)
    try:
        puller.processes = FakeProcesses(children=2)  # type: ignore[assignment]
        assert puller.helpers == (2, 1)
    finally:
        may_end.set()
        thread.join()


def test_closing_stops_the_loader(clock: FakeClock) -> None:
    """A loader is closed if it has a `close`."""
    events: list[str] = []
    closable = Closable(events)
    for made in (closable, [1, 2, 3]):
        Puller(lambda made=made: made, clock).close()  # type: ignore[misc]
    assert events == ["made", "closed"]


def test_the_first_epoch_is_remembered(clock: FakeClock) -> None:
    """Epochs may differ in length, and measurements of hosts are compared by the first one."""
    epochs = iter([3, 2, 2])
    puller = Puller(lambda: paced(clock, [0.1] * next(epochs), BATCH), clock)
    for _ in range(4):
        puller.pull()
    assert (puller.first_epoch_batches, puller.epoch_batches) == (3, 2)
