"""Blocks of batches, pulled as fast as possible."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from netpipe.clock import Clock, MonotonicClock
from netpipe.diagnosis import blocks
from netpipe.diagnosis.blocks import (
    Block,
    PullCost,
    PullingThread,
    measure_block,
    measure_cold_block,
)
from netpipe.errors import LoaderFailedError, MisuseError
from netpipe.grain_access.loader_variants import _timed_copy
from netpipe.jobs import processes
from tests.diagnosis import loaders
from tests.fakes import FakeClock

CLOCK = MonotonicClock()


class Paced:
    """A loader on a fake clock.

    Args:
        clock: Moved on by every batch, and by every start.
        batches: After which it ends; None: it goes on.
        start_s: Seconds that it takes to start.

    Attributes:
        made: How often it was made.
        closed: How often it was stopped.
        thread: The threads that have touched it.
    """

    def __init__(self, clock: FakeClock, batches: int = 10**9, start_s: float = 0.0) -> None:
        self._clock, self._batches, self._start_s = clock, batches, start_s
        self.made = self.closed = 0
        self.threads: set[int] = set()

    def __call__(self) -> Iterator[int]:
        """Make it."""
        self.made += 1
        self._clock.sleep(self._start_s)
        return self._given()

    def _given(self) -> Iterator[int]:
        try:
            for number in range(self._batches):
                self.threads.add(threading.get_ident())
                self._clock.sleep(1.0)
                yield number
        finally:
            self.closed += 1


def measure_alone(
    loader: Callable[[], Any], enough_s: float, clock: Clock, *, undelayed: bool = False
) -> Block:
    """Measure a block of a loader that is started and stopped."""
    with closing(PullingThread(loader, clock, undelayed=undelayed)) as thread:
        return measure_block([thread], enough_s)


def pulling_threads() -> list[str]:
    """Return the names of the threads that pull."""
    return [thread.name for thread in threading.enumerate() if "netpipe-pulling" in thread.name]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    """Check that no test leaves a thread."""
    yield
    assert not pulling_threads()


def test_a_thread_pulls_for_a_while() -> None:
    """It stops after the first batch that comes when the time is up."""
    clock = FakeClock()
    thread = PullingThread(Paced(clock), clock)
    pulled = thread.start_pulling(2.5)()
    thread.close()
    assert (pulled.batches, pulled.wall_s, pulled.restarts) == (3, 3.0, 0)


def test_a_thread_pulls_several_bursts() -> None:
    """Of ten batches every 3 s a block of a second lasts until the fifth wait has ended."""
    clock = FakeClock()

    def loader() -> Iterator[int]:
        for number in range(10**9):
            clock.sleep(3.0 if number % 10 == 0 else 0.0)
            yield number

    with closing(PullingThread(loader, clock)) as thread:
        pulled = thread.start_pulling(2.0)()
    assert (pulled.wall_s, pulled.batches) == (15.0, 50)


def test_a_thread_pulls_a_minimum_of_batches() -> None:
    """The minimum is two, or as many as requested, however long they take."""
    clock = FakeClock()
    thread = PullingThread(Paced(clock), clock)
    assert thread.start_pulling(0.0)().batches == 2
    assert thread.start_pulling(0.5, least=5)().batches == 5
    thread.close()


def test_a_loader_belongs_to_one_thread() -> None:
    """A thread of its own makes it, pulls from it and closes it."""
    clock = FakeClock()
    loader = Paced(clock)
    measure_alone(loader, 3.0, clock)
    assert len(loader.threads) == 1
    assert threading.get_ident() not in loader.threads
    assert loader.closed == loader.made == 1


def test_restarts_are_not_loading() -> None:
    """A loader that ends after four batches and takes 100 s to start still loads one a second."""
    clock = FakeClock()
    thread = PullingThread(Paced(clock, batches=4, start_s=100.0), clock)
    pulled = thread.start_pulling(0.0, least=9)()
    thread.close()
    assert pulled.wall_s / pulled.batches == 1.0
    assert pulled.restarts == 2


def test_cpu_time_of_restarts_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """That holds for this process and for its workers, and each batch counts once."""
    clock, used = FakeClock(), [0.0]

    def loader() -> Iterator[int]:
        used[0] += 100.0
        for number in range(4):
            used[0] += 1.0
            clock.sleep(1.0)
            yield number

    monkeypatch.setattr(blocks, "_workers_cpu_s", lambda: 10 * used[0])
    monkeypatch.setattr(time, "process_time", lambda: used[0])
    thread = PullingThread(loader, clock)
    found = measure_cold_block([thread], 0.0, least=9)
    thread.close()
    assert found.s_per_batch == pytest.approx(1.0)
    assert found.trainer_cpu_s_per_batch == pytest.approx(1.0)
    assert found.workers_cpu_s_per_batch == pytest.approx(10.0)


def test_restarts_count_if_every_batch_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader of one batch has no other cost, so that no ratio divides by 0."""
    clock, used = FakeClock(), [0.0]

    def loader() -> Iterator[int]:
        used[0] += 10.0
        clock.sleep(1.0)
        yield 1

    monkeypatch.setattr(blocks, "_workers_cpu_s", lambda: 0.0)
    monkeypatch.setattr(time, "process_time", lambda: used[0])
    thread = PullingThread(loader, clock)
    found = measure_cold_block([thread], 0.0, least=3)
    thread.close()
    assert found.trainer_cpu_s_per_batch == pytest.approx(20.0)  # each pull begins two


def test_cpu_time_of_ended_workers_is_not_negative() -> None:
    """A worker may end while its CPU time is counted."""
    found = measure_alone(partial(_ending_worker, loaders.with_worker), 0.0, CLOCK)
    assert found.workers_cpu_s_per_batch >= 0
    assert found.cpu_s_per_batch > 0


def _ending_worker(loader: Callable[[], Any]) -> Any:
    from netpipe.grain_access.worker_start import let_grain_start_workers

    let_grain_start_workers()
    return loader()


def test_threads_pull_at_the_same_time() -> None:
    """Each waits for the other, so that threads in turns would never end."""
    both = threading.Barrier(2, timeout=30)

    def loader() -> Iterator[int]:
        yield 0  # the first is asked for as the thread is made
        while True:
            both.wait()
            yield 1

    threads = [PullingThread(loader, CLOCK) for _ in range(2)]
    found = measure_block(threads, 0.0)
    for thread in threads:
        thread.close()
    assert found.s_per_batch > 0


def test_rates_of_threads_add_up() -> None:
    """One batch a second and two a second are three a second."""
    costs = (PullCost(10, 10.0), PullCost(20, 10.0))
    threads: list[Any] = [
        SimpleNamespace(start_pulling=lambda *_, cost=cost: lambda: cost) for cost in costs
    ]
    found = measure_cold_block(threads, 0.0)
    assert found.s_per_batch == pytest.approx(1 / 3)


@pytest.mark.parametrize(("delay_s", "left_s"), [(0.4, 0.6), (1.1, 0.05)])
def test_waits_for_a_core_can_be_left_out(
    monkeypatch: pytest.MonkeyPatch, delay_s: float, left_s: float
) -> None:
    """The kernel's figures may cover other moments than the block: some of the time remains."""
    clock = FakeClock()
    monkeypatch.setattr(blocks, "core_delay_s", lambda: delay_s * clock())
    found = measure_alone(Paced(clock), 10.0, clock, undelayed=True)
    assert found.s_per_batch == pytest.approx(left_s)
    assert measure_alone(Paced(clock), 10.0, clock).s_per_batch == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("loader", "error"), [(loaders.raising, OSError), (list, MisuseError), (lambda: 3, MisuseError)]
)
def test_a_loader_that_cannot_start_leaves_no_thread(loader: Any, error: type[Exception]) -> None:
    """Its error propagates, and keeps no thread alive."""
    with pytest.raises(error) as caught:
        PullingThread(loader, CLOCK)
    assert caught.tb is not None
    assert not pulling_threads()


def test_a_loader_that_fails_is_closed() -> None:
    """The error names the loader, and the thread ends."""
    with pytest.raises(LoaderFailedError, match="5 batches: OSError: disk"):
        measure_alone(loaders.raising_late, 1e6, CLOCK)


def test_an_error_of_closing_is_ignored() -> None:
    """The loader ends with its process."""

    class Stubborn:
        def __iter__(self) -> "Stubborn":
            return self

        def __next__(self) -> int:
            return 1

        def close(self) -> None:
            raise OSError("no")

    assert measure_alone(Stubborn, 0.0, CLOCK).s_per_batch > 0


def test_cpu_time_is_of_all_processes() -> None:
    """It adds up this process and its children."""
    assert Block(1.0, 0.25, 0.5).cpu_s_per_batch == 0.75


def test_copies_for_an_intervention_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Undelayed time and CPU time do not contain the copies of this thread."""
    clock = FakeClock()

    class TakesTwoSeconds:
        def __deepcopy__(self, memo: object) -> str:
            clock.sleep(2.0)
            return "copy"

    def loader() -> Iterator[str]:
        while True:
            clock.sleep(1.0)
            yield str(_timed_copy(TakesTwoSeconds()))

    monkeypatch.setattr(blocks, "core_delay_s", lambda: 0.0)
    monkeypatch.setattr(blocks, "_workers_cpu_s", lambda: 0.0)
    for name in ("process_time", "thread_time"):
        monkeypatch.setattr(time, name, clock)
    found = measure_alone(loader, 9.0, clock)
    assert found.s_per_batch == pytest.approx(3.0)  # workers would go on meanwhile
    assert found.cpu_s_per_batch == pytest.approx(1.0)
    found = measure_alone(loader, 9.0, clock, undelayed=True)
    assert (found.s_per_batch, found.cpu_s_per_batch) == pytest.approx((1.0, 1.0))


def test_copies_of_another_thread_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pulling thread may wait for them or not: that is unknown."""
    clock = FakeClock()

    class TakesTwoSeconds:
        def __deepcopy__(self, memo: object) -> None:
            clock.sleep(2.0)

    def loader() -> Iterator[int]:
        while True:
            reader = threading.Thread(target=_timed_copy, args=(TakesTwoSeconds(),))
            reader.start()
            reader.join()
            yield 1

    monkeypatch.setattr(time, "thread_time", clock)
    monkeypatch.setattr(blocks, "core_delay_s", lambda: 0.0)
    found = measure_alone(loader, 9.0, clock, undelayed=True)
    assert found.s_per_batch == pytest.approx(2.0)


@pytest.mark.parametrize("text", ["", "no number", "1"])
@pytest.mark.parametrize("error", [AttributeError, psutil.AccessDenied])
def test_figures_that_the_kernel_does_not_report_are_0(
    text: str, error: type[Exception], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing or broken file gives 0."""
    (tmp_path / "file").write_text(text)
    monkeypatch.setattr(processes, "_SCHEDULING", tmp_path / "file")
    monkeypatch.setattr(psutil.Process, "io_counters", Mock(side_effect=error))
    assert (processes.core_delay_s(), blocks._read_bytes()) == (0.0, 0)


def test_the_kernels_figures_are_read(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nanoseconds that the thread waited, and bytes that came from a disk."""
    (tmp_path / "schedstat").write_text("5000000000 2500000000 77\n")
    monkeypatch.setattr(processes, "_SCHEDULING", tmp_path / "schedstat")
    counters = SimpleNamespace(read_bytes=4096, read_chars=9)
    monkeypatch.setattr(psutil.Process, "io_counters", lambda _: counters)
    assert (processes.core_delay_s(), blocks._read_bytes()) == (2.5, 4096)
