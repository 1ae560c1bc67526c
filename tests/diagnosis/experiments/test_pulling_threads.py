"""Blocks of batches that threads pull flat out."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from netpipe.clock import Clock
from netpipe.diagnosis.experiments import pulling_threads
from netpipe.diagnosis.experiments.pulling_threads import (
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

CLOCK = Clock()


def paced(clock: FakeClock, batches: int = 10**9, start_s: float = 0.0) -> Callable[[], Any]:
    """Return a loader on a fake clock: a start takes `start_s`, and each batch a second."""

    def loader() -> Iterator[int]:
        clock.sleep(start_s)
        for number in range(batches):
            clock.sleep(1.0)
            yield number

    return loader


def pull(loader: Callable[[], Any], clock: Clock, enough_s: float, *least: int) -> PullCost:
    """Start a loader, pull from it and stop it."""
    with closing(PullingThread(loader, clock)) as thread:
        return thread.start_pulling(enough_s, *least)()


def measure_alone(
    loader: Callable[[], Any], enough_s: float, clock: Clock, *, undelayed: bool = False
) -> Block:
    """Start a loader, measure a block and stop the loader."""
    with closing(PullingThread(loader, clock, undelayed=undelayed)) as thread:
        return measure_block([thread], enough_s)


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    """Check that no test leaves a thread."""
    yield
    assert not [t for t in threading.enumerate() if "netpipe-pulling" in t.name]


def test_a_thread_pulls_for_a_while() -> None:
    """A thread stops after the batch during which the time is up."""
    clock = FakeClock()
    pulled = pull(paced(clock), clock, 2.5)
    assert (pulled.batches, pulled.wall_s, pulled.restarts) == (3, 3.0, 0)


def test_a_thread_pulls_several_bursts() -> None:
    """A block of 2 s with a burst of ten batches every 3 s lasts until the fifth wait ends."""
    clock = FakeClock()

    def loader() -> Iterator[int]:
        for number in range(10**9):
            clock.sleep(3.0 if number % 10 == 0 else 0.0)
            yield number

    pulled = pull(loader, clock, 2.0)
    assert (pulled.wall_s, pulled.batches) == (15.0, 50)


def test_a_thread_pulls_a_minimum_of_batches() -> None:
    """The minimum is two batches, or the requested number, however long they take."""
    clock = FakeClock()
    assert pull(paced(clock), clock, 0.0).batches == 2
    assert pull(paced(clock), clock, 0.5, 5).batches == 5


def test_a_loader_belongs_to_one_thread() -> None:
    """One thread makes the loader, pulls from it and closes it."""
    threads, closed = [], []

    def loader() -> Iterator[int]:
        try:
            while True:
                threads.append(threading.get_ident())
                yield 0
        finally:
            closed.append(threading.get_ident())

    pull(loader, CLOCK, 0.0)
    assert {*threads} == {*closed} != {threading.get_ident()}
    assert len(closed) == 1


def test_restarts_are_not_loading() -> None:
    """A loader that ends after four batches and takes 100 s to start still loads one a second."""
    clock = FakeClock()
    pulled = pull(paced(clock, batches=4, start_s=100.0), clock, 0.0, 9)
    assert pulled.wall_s / pulled.batches == 1.0
    assert pulled.restarts == 2


def test_cpu_time_of_restarts_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU time per batch of this process and of its workers excludes restarts."""
    clock, used = FakeClock(), [0.0]

    def loader() -> Iterator[int]:
        used[0] += 100.0
        for number in range(4):
            used[0] += 1.0
            clock.sleep(1.0)
            yield number

    monkeypatch.setattr(pulling_threads, "_workers_cpu_s", lambda: 10 * used[0])
    monkeypatch.setattr(time, "process_time", lambda: used[0])
    thread = PullingThread(loader, clock)
    found = measure_cold_block([thread], 8.5)
    thread.close()
    assert found.s_per_batch == pytest.approx(1.0)
    assert found.trainer_cpu_s_per_batch == pytest.approx(1.0)
    assert found.workers_cpu_s_per_batch == pytest.approx(10.0)


def test_restarts_count_if_every_batch_needs_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loader of one batch costs nothing else, and no ratio divides by 0."""
    clock, used = FakeClock(), [0.0]

    def loader() -> Iterator[int]:
        used[0] += 10.0
        clock.sleep(1.0)
        yield 1

    monkeypatch.setattr(pulling_threads, "_workers_cpu_s", lambda: 0.0)
    monkeypatch.setattr(time, "process_time", lambda: used[0])
    thread = PullingThread(loader, clock)
    found = measure_cold_block([thread], 2.5)
    thread.close()
    assert found.trainer_cpu_s_per_batch == pytest.approx(20.0)  # each pull begins two


def test_threads_pull_at_the_same_time() -> None:
    """Two loaders that wait for each other both give batches."""
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
    """At least 5% of the time remains: the kernel's figures may cover other moments."""
    clock = FakeClock()
    monkeypatch.setattr(pulling_threads, "core_delay_s", lambda: delay_s * clock())
    found = measure_alone(paced(clock), 10.0, clock, undelayed=True)
    assert found.s_per_batch == pytest.approx(left_s)
    assert measure_alone(paced(clock), 10.0, clock).s_per_batch == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("loader", "error"), [(loaders.raising, OSError), (list, MisuseError), (lambda: 3, MisuseError)]
)
def test_a_loader_that_cannot_start_leaves_no_thread(loader: Any, error: type[Exception]) -> None:
    """The loader's error propagates."""
    with pytest.raises(error) as caught:
        PullingThread(loader, CLOCK)
    assert caught.tb is not None
    assert not [t for t in threading.enumerate() if "netpipe-pulling" in t.name]


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


def test_copies_for_an_intervention_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The CPU time excludes copies of this thread; so does the undelayed wall time."""
    clock = FakeClock()

    class TakesTwoSeconds:
        def __deepcopy__(self, memo: object) -> str:
            clock.sleep(2.0)
            return "copy"

    def loader() -> Iterator[str]:
        while True:
            clock.sleep(1.0)
            yield str(_timed_copy(TakesTwoSeconds()))

    monkeypatch.setattr(pulling_threads, "core_delay_s", lambda: 0.0)
    monkeypatch.setattr(pulling_threads, "_workers_cpu_s", lambda: 0.0)
    for name in ("process_time", "thread_time"):
        monkeypatch.setattr(time, name, clock)
    found = measure_alone(loader, 9.0, clock)
    assert found.s_per_batch == pytest.approx(3.0)  # workers would go on meanwhile
    assert found.cpu_s_per_batch == pytest.approx(1.0)
    found = measure_alone(loader, 9.0, clock, undelayed=True)
    assert (found.s_per_batch, found.cpu_s_per_batch) == pytest.approx((1.0, 1.0))


def test_copies_of_another_thread_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pulling thread may or may not wait for them, so nothing is subtracted."""
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
    monkeypatch.setattr(pulling_threads, "core_delay_s", lambda: 0.0)
    found = measure_alone(loader, 9.0, clock, undelayed=True)
    assert found.s_per_batch == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("text", "counters", "delay_s", "read_bytes"),
    [
        ("5000000000 2500000000 77\n", Mock(return_value=Mock(read_bytes=4096)), 2.5, 4096),
        ("", Mock(side_effect=AttributeError), 0.0, 0),
        ("no number", Mock(side_effect=psutil.AccessDenied), 0.0, 0),
        ("1", Mock(side_effect=psutil.AccessDenied), 0.0, 0),
    ],
)
def test_the_kernels_figures_are_read(
    text: str,
    counters: Mock,
    delay_s: float,
    read_bytes: int,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A missing or broken file gives 0 s of waiting for a core, and 0 bytes from a disk."""
    (tmp_path / "schedstat").write_text(text)
    monkeypatch.setattr(processes, "_SCHEDULING", tmp_path / "schedstat")
    monkeypatch.setattr(psutil.Process, "io_counters", counters)
    assert (processes.core_delay_s(), pulling_threads._read_bytes()) == (delay_s, read_bytes)
