"""The reference loader: pulled in turns, on a clock that the test holds, and once for real."""

from collections.abc import Iterator
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any

import grain
import pytest

from netpipe.grain_workers import let_grain_start_workers
from netpipe.harness import calibration
from netpipe.harness.calibration import Reference, Turns
from netpipe.harness.clock import MonotonicClock
from netpipe.harness.processes import ProcessTree
from netpipe.harness.pull import LoaderFactory, Puller
from tests.harness.fakes import FakeClock

LOADER_S, REFERENCE_S = 1 / 64, 1 / 128  # of a batch: two of the loader fill a turn of 20 ms


class Cpu:
    """CPU time of this process and of two sorts of workers, as a test wants it.

    Args:
        clock: Tells for how long workers have worked.

    Attributes:
        own_s: CPU seconds of this process.
        cores: How much of a core the workers of each sort use, by sort.
    """

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self.own_s = 0.0
        self.cores = {"loader": 0.0, "reference": 0.0}

    def process_time(self) -> float:
        """Return the CPU seconds of this process."""
        return self.own_s

    def workers(self, sort: str) -> Any:
        """Return processes that say what the workers of a sort have used."""
        return SimpleNamespace(children_cpu_s=lambda: self.cores[sort] * self._clock())


@pytest.fixture
def cpu(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Cpu:
    """CPU time that nobody uses yet."""
    cpu = Cpu(clock)
    monkeypatch.setattr(calibration, "time", cpu)
    return cpu


def batches(clock: FakeClock, cpu: Cpu, gap_s: float, costs_s: Iterator[float]) -> Iterator[int]:
    """Give a batch after each gap, at such a cost to this process."""
    for number, cost_s in enumerate(costs_s):
        clock.sleep(gap_s)
        cpu.own_s += cost_s
        yield number


@pytest.fixture
def reference(clock: FakeClock, cpu: Cpu, monkeypatch: pytest.MonkeyPatch) -> Reference:
    """A reference loader whose batch takes 8 ms, 1 ms of it this process's CPU."""
    made = batches(clock, cpu, REFERENCE_S, repeat(0.001))
    monkeypatch.setattr(calibration, "_dataset", lambda _: made)
    reference = Reference(0)
    monkeypatch.setattr(reference, "processes", cpu.workers("reference"))
    return reference


@pytest.fixture
def pulled(clock: FakeClock, cpu: Cpu, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that pulls a loader and tells what it is."""

    def pull(loader: LoaderFactory) -> Puller:
        puller = Puller(loader, clock)
        monkeypatch.setattr(puller, "_look_at_processes", lambda: None)
        monkeypatch.setattr(puller, "processes", cpu.workers("loader"))
        return puller

    return pull


def costing(turns: Turns) -> tuple[float, float]:
    """Return the two costs, rounded to what the clock's arithmetic leaves."""
    return round(turns.load_cpu_s, 9), round(turns.reference_cpu_s, 9)


def test_each_turn_of_this_process_counts_for_whose_it_is(
    clock: FakeClock, cpu: Cpu, reference: Reference, pulled: Any
) -> None:
    """Without workers a batch costs what this process used while that loader was pulled."""
    puller = pulled(lambda: batches(clock, cpu, LOADER_S, repeat(0.003)))
    assert costing(reference.beside(puller, 1.0, clock)) == (0.003, 0.001)


def test_workers_count_in_both_turns(
    clock: FakeClock, cpu: Cpu, reference: Reference, pulled: Any
) -> None:
    """They go on while the other loader is pulled; each loader's count for that loader alone."""
    puller = pulled(lambda: batches(clock, cpu, LOADER_S, repeat(0.003)))
    cpu.cores = {"loader": 0.5, "reference": 2.0}
    both_s = 2 * 2 * LOADER_S  # a turn of two batches, and the reference's of four
    expected = (0.003 + 0.5 * both_s / 2, 0.001 + 2.0 * both_s / 4)
    assert costing(reference.beside(puller, 1.0, clock)) == pytest.approx(expected)


def test_turns_are_short_and_equal(
    clock: FakeClock, cpu: Cpu, reference: Reference, pulled: Any
) -> None:
    """A turn lasts some 20 ms, and the other one's as long, until the time is over."""
    asked: list[float] = []
    loader = batches(clock, cpu, LOADER_S, repeat(0.003))
    puller = pulled(lambda: loader)
    pull = puller.pull

    def noted() -> Any:
        asked.append(clock())
        return pull()

    puller.pull = noted
    before_s = clock()
    reference.beside(puller, 1.0, clock)
    assert 1.0 <= clock() - before_s - 2 * 2 * LOADER_S < 1.0 + 2 * 2 * LOADER_S
    begun = asked[::2]
    assert asked[1::2] == [one + LOADER_S for one in begun]
    assert begun[1:] == [one + 2 * 2 * LOADER_S for one in begun[:-1]]


def test_a_slow_loader_gets_a_batch_and_the_reference_as_much_time(
    clock: FakeClock, cpu: Cpu, reference: Reference, pulled: Any
) -> None:
    """Half a second a batch: one a turn, and then 64 of the reference's."""
    puller = pulled(lambda: batches(clock, cpu, 0.5, repeat(0.2)))
    cpu.cores["reference"] = 1.0
    before = puller.pulled
    found = reference.beside(puller, 0.1, clock)
    assert puller.pulled == before + 2
    assert costing(found) == (0.2, 0.001 + 1.0 / 64)


def test_the_first_turn_does_not_count(
    clock: FakeClock, cpu: Cpu, reference: Reference, pulled: Any
) -> None:
    """What a loader's buffers hold when it begins has been paid for before."""
    costs_s = chain(repeat(9.0, 3), repeat(0.003))
    puller = pulled(lambda: batches(clock, cpu, LOADER_S, costs_s))
    assert costing(reference.beside(puller, 0.5, clock)) == (0.003, 0.001)


def test_a_turn_with_a_restart_does_not_count(
    clock: FakeClock, cpu: Cpu, reference: Reference, pulled: Any
) -> None:
    """Starting a loader that had ended costs much, and is no loading."""

    def loader() -> Iterator[int]:
        cpu.own_s += 5.0
        yield from batches(clock, cpu, LOADER_S, repeat(0.003, 9))

    puller = pulled(loader)
    assert costing(reference.beside(puller, 1.0, clock)) == (0.003, 0.001)
    assert puller.restarts > 1


def test_a_loader_that_ends_in_every_turn_is_taken_as_it_is(
    clock: FakeClock, cpu: Cpu, reference: Reference, pulled: Any
) -> None:
    """After three times the time what it costs to start is counted, rather than nothing."""

    def loader() -> Iterator[int]:
        cpu.own_s += 5.0
        yield from batches(clock, cpu, LOADER_S, repeat(0.003, 1))

    before_s = clock()
    found = reference.beside(pulled(loader), 1.0, clock)
    assert found.load_cpu_s > 0.003
    assert clock() - before_s == pytest.approx(3.0, abs=0.2)


def test_there_is_something_to_tell_however_little_time(
    clock: FakeClock, cpu: Cpu, reference: Reference, pulled: Any
) -> None:
    """Without any time there is one turn that counts."""
    puller = pulled(lambda: batches(clock, cpu, LOADER_S, repeat(0.003)))
    assert costing(reference.beside(puller, 0.0, clock)) == (0.003, 0.001)


def test_its_work_is_fixed() -> None:
    """A batch is the same each time, and leaves what it works on as it was."""
    values = calibration._VALUES.copy()
    once, again = calibration._batch(3), calibration._batch(3)
    assert (calibration._VALUES == values).all()
    assert {key: one.shape for key, one in once.items()} == dict.fromkeys("abcdef", (8, 256))
    assert all((once[key] == again[key]).all() for key in once)
    assert (values[1:] < values[:-1]).any()  # there is something to sort


@pytest.mark.parametrize(("cores", "workers", "used"), [(4, 0, 0), (4, 3, 3), (2, 9, 2)])
def test_it_has_as_many_workers(
    monkeypatch: pytest.MonkeyPatch, cores: int, workers: int, used: int
) -> None:
    """As the loader that is measured, up to a worker a CPU; its name says how many."""
    asked: list[int] = []

    def dataset(workers: int) -> Iterator[int]:
        asked.append(workers)
        return iter(range(10))

    monkeypatch.setattr(calibration, "_dataset", dataset)
    monkeypatch.setattr(calibration, "this_host", lambda: SimpleNamespace(cores=cores))
    reference = Reference(workers)
    assert (reference.workers, asked) == (used, [used])
    assert reference.name == f"{calibration.VERSION}, {used} workers"


def small_batches(workers: int) -> LoaderFactory:
    """A loader of next to no work."""

    def loader() -> Any:
        threads = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        dataset = grain.MapDataset.range(1 << 30).batch(8).to_iter_dataset(threads)
        let_grain_start_workers()
        return dataset.mp_prefetch(grain.MultiprocessingOptions(workers, 1)) if workers else dataset

    return loader


@pytest.mark.parametrize("workers", [0, 1])
def test_two_real_loaders_are_told_apart(workers: int) -> None:
    """Both cost something, the workers of neither count as the other's, and none is left."""
    clock, before = MonotonicClock(), set(ProcessTree().worker_pids)
    puller = Puller(small_batches(workers), clock)
    theirs = set(puller.processes.worker_pids) - before
    assert len(theirs) == workers
    reference = Reference(workers)
    ours = set(reference.processes.worker_pids)
    try:
        assert len(ours) == workers
        assert not ours & (theirs | before)
        puller.strangers = reference.processes.pids
        puller._look_at_processes()
        assert not ours & set(puller.processes.pids)
        assert theirs <= set(puller.processes.pids)
        turns = reference.beside(puller, 0.1, clock)
        assert 0 < turns.load_cpu_s < 60
        assert 0 < turns.reference_cpu_s < 60
    finally:
        reference.close()
        puller.close()
    assert set(ProcessTree().worker_pids) <= before
