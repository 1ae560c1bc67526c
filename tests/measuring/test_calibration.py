"""The reference loader: pulled in turns on a fake clock, and once for real."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, repeat
from types import SimpleNamespace
from typing import Any

import grain
import numpy as np
import pytest

from netpipe.clock import Clock
from netpipe.grain_access.worker_start import let_grain_start_workers
from netpipe.jobs.processes import ProcessTree
from netpipe.measuring import calibration
from netpipe.measuring.calibration import ReferenceLoader
from netpipe.measuring.loader_puller import LoaderFactory, Puller
from tests.fakes import FakeClock

LOADER_S, REFERENCE_S = 1 / 64, 1 / 128  # two batches of the loader fill a turn of 20 ms
CYCLE_S = 2 * 2 * LOADER_S  # a turn of two batches, and the reference's of four


class Makers:
    """Workers or threads that make another batch for each one pulled.

    Attributes:
        cores: CPU use beside batches.
        reading_s: CPU seconds of this thread to read their CPU time.
        ended_s: CPU seconds of their predecessors.
    """

    def __init__(self, clock: FakeClock, cpu: "Cpu") -> None:
        self._clock, self._cpu = clock, cpu
        self._pulled: list[tuple[float, float]] = []
        self.cpu_s_per_batch = self.cores = self.reading_s = self.ended_s = 0.0

    def pulled(self) -> None:
        """Begin to make a batch."""
        self._pulled.append((self._clock(), self.cpu_s_per_batch))

    def children_cpu_s(self) -> float:
        """Return their CPU seconds."""
        now_s = self._clock()
        return sum(min(cpu_s, now_s - at) for at, cpu_s in self._pulled) + self.cores * now_s

    def cpu_s(self) -> float:
        """Return the CPU seconds of them, their predecessors and this process."""
        used_s = self._cpu.process_time() + self.ended_s + self.children_cpu_s()
        self._cpu.thread_s += self.reading_s
        return used_s


class Cpu:
    """The CPU time of this process."""

    def __init__(self) -> None:
        self.thread_s = 0.0
        self.others: list[Makers] = []

    def thread_time(self) -> float:
        """Return the CPU seconds of this thread."""
        return self.thread_s

    def process_time(self) -> float:
        """Return the CPU seconds of all threads of this process."""
        return self.thread_s + sum(other.children_cpu_s() for other in self.others)


class Loader:
    """A loader that moves the clock by `gap_s` and this thread's CPU time by `cpu_s` a batch."""

    def __init__(self, clock: FakeClock, cpu: Cpu, gap_s: float, cpu_s: float) -> None:
        self._clock, self._cpu = clock, cpu
        self._gap_s, self._cpu_s = gap_s, cpu_s
        self.workers, self.threads = Makers(clock, cpu), Makers(clock, cpu)
        cpu.others.append(self.threads)
        self.starts_cpu_s = 0.0
        self.lasts: Iterator[int] = repeat(1 << 30)

    def __call__(self) -> Iterator[int]:
        """Start it for the next number of batches in `lasts`."""
        self._cpu.thread_s += self.starts_cpu_s
        for number in range(next(self.lasts)):
            self._clock.sleep(self._gap_s)
            self._cpu.thread_s += self._cpu_s
            self.workers.pulled()
            self.threads.pulled()
            yield number


@dataclass
class Rig:
    """A running loader whose batch costs 3 ms, and a reference whose batch costs 1 ms."""

    clock: FakeClock
    cpu: Cpu
    loader: Loader
    referred: Loader
    puller: Puller
    reference: ReferenceLoader

    def costs(self, enough_s: float = 1.0) -> tuple[float, float]:
        """Measure both; return their CPU seconds per batch, rounded to the clock's arithmetic."""
        turns = self.reference.measure_beside(self.puller, enough_s, self.clock)
        return round(turns.load_cpu_s_per_batch, 9), round(turns.reference_cpu_s_per_batch, 9)

    def ends_after(self, batches: int) -> None:
        """Let the running epoch end after some batches, and make each start expensive."""
        self.puller._iterator = islice(self.puller._iterator, batches)
        self.loader.starts_cpu_s = 5.0


@pytest.fixture
def rig(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """A loader and a reference on the fake clock, without processes."""
    cpu = Cpu()
    loader, referred = Loader(clock, cpu, LOADER_S, 0.003), Loader(clock, cpu, REFERENCE_S, 0.001)
    monkeypatch.setattr(calibration, "time", cpu)
    monkeypatch.setattr(calibration, "_dataset", lambda _: referred())
    monkeypatch.setattr(calibration, "thread_cpu_s", lambda _: referred.threads.children_cpu_s())
    reference, puller = ReferenceLoader(0), Puller(loader, clock)
    monkeypatch.setattr(reference, "processes", referred.workers)
    monkeypatch.setattr(reference, "_threads", {1})
    monkeypatch.setattr(puller, "_find_processes", lambda: None)
    monkeypatch.setattr(puller, "processes", loader.workers)
    return Rig(clock, cpu, loader, referred, puller, reference)


@pytest.mark.parametrize("reading_s", [0.0, 0.001])
def test_cpu_time_of_this_process_counts_for_the_loader_in_turn(rig: Rig, reading_s: float) -> None:
    """Without workers a batch costs this thread's CPU time, without that of reading CPU clocks."""
    rig.loader.workers.reading_s = reading_s
    assert rig.costs() == (0.003, 0.001)


@pytest.mark.parametrize("behind", ["workers", "threads"])
def test_threads_and_workers_count_for_their_own_loader(rig: Rig, behind: str) -> None:
    """Workers continue while the other loader is pulled, and after the last batch."""
    for loader, cpu_s in ((rig.loader, 0.0005), (rig.referred, 0.0002)):
        getattr(loader, behind).cpu_s_per_batch = cpu_s
    assert rig.costs() == (0.0035, 0.0012)


@pytest.mark.parametrize("behind", ["workers", "threads"])
def test_batches_in_the_making_before_do_not_count(rig: Rig, behind: str) -> None:
    """The turns begin when the buffers are full."""
    makers: Makers = getattr(rig.loader, behind)
    makers.cpu_s_per_batch = 0.5
    rig.puller.pull()
    makers.cpu_s_per_batch = 0.0
    assert rig.costs() == (0.003, 0.001)


def test_the_wait_for_quiet_workers_is_bounded(rig: Rig) -> None:
    """Turns begin and end even if buffers never get full."""
    rig.loader.workers.cores = 1.0
    before_s = rig.clock()
    assert rig.costs()[0] > 0.003
    assert rig.clock() - before_s < 1.0 + 2 * calibration._MAX_FILLING_S + 2 * CYCLE_S


def test_turns_are_short_and_equal(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn lasts about 20 ms, the reference's turn as long, until the time is up."""
    asked: list[float] = []
    pull = rig.puller.pull

    def noted() -> Any:
        asked.append(rig.clock())
        return pull()

    monkeypatch.setattr(rig.puller, "pull", noted)
    rig.costs()
    begun = asked[::2]
    assert asked[1::2] == pytest.approx([begun_s + LOADER_S for begun_s in begun])
    assert begun[1:] == pytest.approx([begun_s + CYCLE_S for begun_s in begun[:-1]])
    assert len(begun) == 1.0 / CYCLE_S


@pytest.mark.parametrize("enough_s", [0.0, 0.1])
def test_a_slow_loader_gets_a_batch_and_the_reference_as_much_time(
    rig: Rig, enough_s: float
) -> None:
    """A batch of half a second is pulled once, and 64 batches of the reference after it."""
    slow = Loader(rig.clock, rig.cpu, 0.5, 0.2)
    rig.puller = Puller(slow, rig.clock)
    rig.puller.processes = slow.workers  # type: ignore[assignment]
    started_s = rig.clock()
    assert rig.costs(enough_s) == (0.2, 0.001)
    assert rig.puller.pulled == 1 + 1
    assert 1.0 <= rig.clock() - started_s < 1.2


def test_turns_with_a_restart_are_repeated(rig: Rig) -> None:
    """The cost of starting a loader that has ended is not part of a batch."""
    rig.ends_after(5)
    assert rig.costs() == (0.003, 0.001)
    assert rig.puller.restarts == 2  # where it ended, and before turns that it would end in again


def test_turns_end_with_the_epoch(rig: Rig) -> None:
    """Turns that are longer than an epoch stop at its end, before the loader starts."""
    started = rig.puller._start
    rig.puller._start = lambda: islice(started(), 5)  # type: ignore[method-assign]
    rig.ends_after(5)
    for _ in range(4):
        assert rig.costs() == (0.003, 0.001)


def test_turns_are_repeated_a_few_times_only(rig: Rig) -> None:
    """After a few tries the cost of starting counts too."""
    rig.ends_after(5)
    rig.loader.lasts = repeat(1)
    before_s = rig.clock()
    load_s, reference_s = rig.costs()
    assert load_s > 0.1
    assert reference_s == 0.001
    assert rig.puller.restarts > 2
    assert rig.clock() - before_s < 5.0


def test_restarted_workers_do_not_lower_the_cost(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch keeps its cost, although new workers have used less than their predecessors."""
    loader, puller = rig.loader, rig.puller
    loader.workers.cpu_s_per_batch = 0.010

    def look() -> None:
        ended_s = loader.workers.ended_s + loader.workers.children_cpu_s()
        puller.processes = loader.workers = Makers(rig.clock, rig.cpu)  # type: ignore[assignment]
        loader.workers.ended_s = ended_s
        loader.workers.cpu_s_per_batch = 0.010

    monkeypatch.setattr(puller, "_find_processes", look)
    puller._iterator = islice(puller._iterator, 5)
    loader.lasts = repeat(40)
    assert rig.costs()[0] >= 0.003


def test_its_work_is_fixed() -> None:
    """A batch is the same each time, and does not change its input."""
    values = calibration._VALUES.copy()
    once, again = calibration._batch(3), calibration._batch(3)
    assert np.array_equal(values, calibration._VALUES)
    assert {key: array.shape for key, array in once.items()} == dict.fromkeys("abcdef", (8, 256))
    assert all((once[key] == again[key]).all() for key in once)
    assert (values[1:] < values[:-1]).any()  # there is something to sort


@pytest.mark.parametrize(("cores", "workers", "used"), [(4, 0, 0), (4, 3, 3), (2, 9, 2)])
def test_it_has_as_many_workers(
    monkeypatch: pytest.MonkeyPatch, cores: int, workers: int, used: int
) -> None:
    """It has the workers of the measured loader, at most one per CPU; its name has their number."""
    asked: list[int] = []

    def dataset(workers: int) -> Iterator[int]:
        asked.append(workers)
        return repeat(0)

    monkeypatch.setattr(calibration, "_dataset", dataset)
    monkeypatch.setattr(calibration, "this_host", lambda: SimpleNamespace(cores=cores))
    reference = ReferenceLoader(workers)
    assert (reference.workers, asked) == (used, [used])
    assert reference.name == f"{calibration.VERSION}, {used} workers"


def small_batches(workers: int) -> LoaderFactory:
    """Return a loader that does next to nothing."""

    def loader() -> Any:
        threads = grain.ReadOptions(num_threads=0, prefetch_buffer_size=0)
        dataset = grain.MapDataset.range(1 << 30).batch(8).to_iter_dataset(threads)
        let_grain_start_workers()
        return dataset.mp_prefetch(grain.MultiprocessingOptions(workers, 1)) if workers else dataset

    return loader


@pytest.mark.parametrize("workers", [0, 1])
def test_two_real_loaders_have_separate_costs(workers: int) -> None:
    """Both cost something, workers count for their own loader only, and none is left."""
    clock, before = Clock(), set(ProcessTree().worker_pids)
    puller = Puller(small_batches(workers), clock)
    theirs = set(puller.processes.worker_pids) - before
    assert len(theirs) == workers
    reference = ReferenceLoader(workers)
    ours = set(reference.processes.worker_pids)
    try:
        assert len(ours) == workers
        assert not ours & (theirs | before)
        puller.ignore_processes(reference.processes.pids)
        assert not ours & set(puller.processes.pids)
        assert theirs <= set(puller.processes.pids)
        turns = reference.measure_beside(puller, 0.1, clock)
        assert 0 < turns.load_cpu_s_per_batch < 60
        assert 0 < turns.reference_cpu_s_per_batch < 60
    finally:
        reference.close()
        puller.close()
    assert set(ProcessTree().worker_pids) <= before


def test_a_cost_is_never_negative(rig: Rig) -> None:
    """A loader that only sleeps may cost less than the reading of the clocks is thought to."""
    rig.loader._cpu_s = -1e-6
    turns = rig.reference.measure_beside(rig.puller, 1.0, rig.clock)
    assert 0 < turns.load_cpu_s_per_batch < 1e-9
