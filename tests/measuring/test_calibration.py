"""The reference loader: pulled in turns, on a clock that the test holds, and once for real."""

from collections.abc import Iterator
from itertools import islice, repeat
from types import SimpleNamespace
from typing import Any

import grain
import numpy as np
import pytest

from netpipe.clock import MonotonicClock
from netpipe.grain_access.worker_start import let_grain_start_workers
from netpipe.jobs.processes import ProcessTree
from netpipe.measuring import calibration
from netpipe.measuring.calibration import ReferenceLoader
from netpipe.measuring.loader_puller import LoaderFactory, Puller
from netpipe.results.measurement import CalibrationTurns
from tests.fakes import FakeClock

LOADER_S, REFERENCE_S = 1 / 64, 1 / 128  # of a batch: two of the loader fill a turn of 20 ms
CYCLE_S = 2 * 2 * LOADER_S  # a turn of two batches, and the reference's of four


class Makers:
    """Workers or threads that make another batch for each that is pulled, from then on.

    Args:
        clock: Tells when.
        cpu: This process's CPU time.
    """

    def __init__(self, clock: FakeClock, cpu: "Cpu") -> None:
        self._clock, self._cpu = clock, cpu
        self._pulled: list[tuple[float, float]] = []
        self.cpu_s_per_batch = 0.0
        self.cores = 0.0  # that they use whatever is pulled
        self.reading_s = 0.0  # that it costs this thread to read their CPU time
        self.ended_s = 0.0  # of those before them

    def pulled(self) -> None:
        """Take note that a batch was pulled."""
        self._pulled.append((self._clock(), self.cpu_s_per_batch))

    def children_cpu_s(self) -> float:
        """Return the CPU seconds that they have used."""
        now_s = self._clock()
        return sum(min(cpu_s, now_s - at) for at, cpu_s in self._pulled) + self.cores * now_s

    def cpu_s(self) -> float:
        """Return the CPU seconds that they, those before them and this process have used."""
        used_s = self._cpu.process_time() + self.ended_s + self.children_cpu_s()
        self._cpu.thread_s += self.reading_s
        return used_s


class Cpu:
    """CPU time of this process, as a test wants it."""

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
    """A loader on the clock, pulled here, with workers and threads behind it.

    Args:
        clock: Moved on by each batch.
        cpu: This process's CPU time, moved on by each batch.
        gap_s: Seconds between batches.
        cpu_s: CPU seconds that this thread spends on one.
    """

    def __init__(self, clock: FakeClock, cpu: Cpu, gap_s: float, cpu_s: float) -> None:
        self._clock, self._cpu = clock, cpu
        self._gap_s, self._cpu_s = gap_s, cpu_s
        self.workers, self.threads = Makers(clock, cpu), Makers(clock, cpu)
        cpu.others.append(self.threads)
        self.starts_cpu_s = 0.0
        self.lasts: Iterator[int] = repeat(1 << 30)

    def __call__(self) -> Iterator[int]:
        """Start it; give as many batches as it lasts this time."""
        self._cpu.thread_s += self.starts_cpu_s
        for number in range(next(self.lasts)):
            self._clock.sleep(self._gap_s)
            self._cpu.thread_s += self._cpu_s
            self.workers.pulled()
            self.threads.pulled()
            yield number


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> Cpu:
    """CPU time that nobody uses yet."""
    cpu = Cpu()
    monkeypatch.setattr(calibration, "time", cpu)
    return cpu


@pytest.fixture
def loader(clock: FakeClock, cpu: Cpu) -> Loader:
    """A loader whose batch costs this thread 3 ms."""
    return Loader(clock, cpu, LOADER_S, 0.003)


@pytest.fixture
def referred(clock: FakeClock, cpu: Cpu) -> Loader:
    """What the reference loader pulls: its batch costs this thread 1 ms."""
    return Loader(clock, cpu, REFERENCE_S, 0.001)


@pytest.fixture
def reference(referred: Loader, monkeypatch: pytest.MonkeyPatch) -> ReferenceLoader:
    """A reference loader on the clock."""
    monkeypatch.setattr(calibration, "_dataset", lambda _: referred())
    monkeypatch.setattr(calibration, "thread_cpu_s", lambda _: referred.threads.children_cpu_s())
    reference = ReferenceLoader(0)
    monkeypatch.setattr(reference, "processes", referred.workers)
    monkeypatch.setattr(reference, "_threads", {1})
    return reference


@pytest.fixture
def puller(clock: FakeClock, loader: Loader, monkeypatch: pytest.MonkeyPatch) -> Puller:
    """The loader, running."""
    puller = Puller(loader, clock)
    monkeypatch.setattr(puller, "_find_processes", lambda: None)
    monkeypatch.setattr(puller, "processes", loader.workers)
    return puller


def costing(turns: CalibrationTurns) -> tuple[float, float]:
    """Return the two costs, rounded to what the clock's arithmetic leaves."""
    return round(turns.load_cpu_s_per_batch, 9), round(turns.reference_cpu_s_per_batch, 9)


def test_cpu_time_of_this_process_counts_for_the_loader_in_turn(
    clock: FakeClock, reference: ReferenceLoader, puller: Puller
) -> None:
    """Without workers a batch costs what this process used while that loader was pulled."""
    assert costing(reference.measure_beside(puller, 1.0, clock)) == (0.003, 0.001)


def test_reading_cpu_times_does_not_count_for_the_loader(
    clock: FakeClock, reference: ReferenceLoader, puller: Puller, loader: Loader
) -> None:
    """The CPU time that this thread spends on reading the clocks of processes is the harness's."""
    loader.workers.reading_s = 0.001
    assert costing(reference.measure_beside(puller, 1.0, clock)) == (0.003, 0.001)


@pytest.mark.parametrize("behind", ["workers", "threads"])
def test_threads_and_workers_count_for_their_own_loader(
    clock: FakeClock,
    reference: ReferenceLoader,
    puller: Puller,
    loader: Loader,
    referred: Loader,
    behind: str,
) -> None:
    """In anybody's turn: they go on while the other loader is pulled, and after the last batch."""
    for one, cpu_s in ((loader, 0.0005), (referred, 0.0002)):
        getattr(one, behind).cpu_s_per_batch = cpu_s
    assert costing(reference.measure_beside(puller, 1.0, clock)) == (0.0035, 0.0012)


@pytest.mark.parametrize("behind", ["workers", "threads"])
def test_batches_in_the_making_before_do_not_count(
    clock: FakeClock, reference: ReferenceLoader, puller: Puller, loader: Loader, behind: str
) -> None:
    """The turns begin when the buffers are full."""
    makers: Makers = getattr(loader, behind)
    makers.cpu_s_per_batch = 0.5
    puller.pull()
    makers.cpu_s_per_batch = 0.0
    assert costing(reference.measure_beside(puller, 1.0, clock)) == (0.003, 0.001)


def test_the_wait_for_quiet_workers_is_bounded(
    clock: FakeClock, reference: ReferenceLoader, puller: Puller, loader: Loader
) -> None:
    """Where buffers never get full, the turns begin and end all the same."""
    loader.workers.cores = 1.0
    before_s = clock()
    assert reference.measure_beside(puller, 1.0, clock).load_cpu_s_per_batch > 0.003
    assert clock() - before_s < 1.0 + 2 * calibration._MAX_FILLING_S + 2 * CYCLE_S


def test_turns_are_short_and_equal(
    clock: FakeClock, reference: ReferenceLoader, puller: Puller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn lasts some 20 ms, and the other one's as long, until the time is over."""
    asked: list[float] = []
    pull = puller.pull

    def noted() -> Any:
        asked.append(clock())
        return pull()

    monkeypatch.setattr(puller, "pull", noted)
    reference.measure_beside(puller, 1.0, clock)
    begun = asked[::2]
    assert asked[1::2] == pytest.approx([begun_s + LOADER_S for begun_s in begun])
    assert begun[1:] == pytest.approx([begun_s + CYCLE_S for begun_s in begun[:-1]])
    assert len(begun) == 1.0 / CYCLE_S


@pytest.mark.parametrize("enough_s", [0.0, 0.1])
def test_a_slow_loader_gets_a_batch_and_the_reference_as_much_time(
    clock: FakeClock, cpu: Cpu, reference: ReferenceLoader, enough_s: float
) -> None:
    """Half a second a batch: one in all, and then 64 of the reference's."""
    slow = Loader(clock, cpu, 0.5, 0.2)
    puller = Puller(slow, clock)
    puller.processes = slow.workers  # type: ignore[assignment]
    started_s = clock()
    assert costing(reference.measure_beside(puller, enough_s, clock)) == (0.2, 0.001)
    assert puller.pulled == 1 + 1
    assert 1.0 <= clock() - started_s < 1.2


def test_turns_with_a_restart_are_repeated(
    clock: FakeClock, reference: ReferenceLoader, puller: Puller, loader: Loader
) -> None:
    """Starting a loader that had ended costs much, and is no loading."""
    puller._iterator = islice(puller._iterator, 5)
    loader.starts_cpu_s = 5.0
    assert costing(reference.measure_beside(puller, 1.0, clock)) == (0.003, 0.001)
    assert puller.restarts == 2  # where it ended, and before turns that it would end in again


def test_turns_end_with_the_epoch(
    clock: FakeClock, reference: ReferenceLoader, puller: Puller, loader: Loader
) -> None:
    """Where an epoch is shorter than the turns, they stop at its end, before the loader starts."""
    started = puller._start
    puller._start = lambda: islice(started(), 5)  # type: ignore[method-assign]
    puller._iterator = islice(puller._iterator, 5)
    loader.starts_cpu_s = 5.0
    for _ in range(4):
        assert costing(reference.measure_beside(puller, 1.0, clock)) == (0.003, 0.001)


def test_turns_are_repeated_a_few_times_only(
    clock: FakeClock, reference: ReferenceLoader, puller: Puller, loader: Loader
) -> None:
    """After a few tries what it costs to start is counted too, rather than nothing."""
    puller._iterator = islice(puller._iterator, 5)
    loader.starts_cpu_s, loader.lasts = 5.0, repeat(1)
    before_s = clock()
    found = reference.measure_beside(puller, 1.0, clock)
    assert found.load_cpu_s_per_batch > 0.1
    assert found.reference_cpu_s_per_batch == pytest.approx(0.001)
    assert puller.restarts > 2
    assert clock() - before_s < 5.0


def test_restarted_workers_do_not_lower_the_cost(
    clock: FakeClock,
    cpu: Cpu,
    reference: ReferenceLoader,
    puller: Puller,
    loader: Loader,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """New workers have used less than those before them had; a batch has its cost all the same."""
    loader.workers.cpu_s_per_batch = 0.010

    def look() -> None:
        ended_s = loader.workers.ended_s + loader.workers.children_cpu_s()
        puller.processes = loader.workers = Makers(clock, cpu)  # type: ignore[assignment]
        loader.workers.ended_s = ended_s
        loader.workers.cpu_s_per_batch = 0.010

    monkeypatch.setattr(puller, "_find_processes", look)
    puller._iterator = islice(puller._iterator, 5)
    loader.lasts = repeat(40)
    assert reference.measure_beside(puller, 1.0, clock).load_cpu_s_per_batch >= 0.003


def test_its_work_is_fixed() -> None:
    """A batch is the same each time, and leaves what it works on as it was."""
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
    """As the loader that is measured, up to a worker a CPU; its name says how many."""
    asked: list[int] = []

    def dataset(workers: int) -> Iterator[int]:
        asked.append(workers)
        return iter(range(10))

    monkeypatch.setattr(calibration, "_dataset", dataset)
    monkeypatch.setattr(calibration, "this_host", lambda: SimpleNamespace(cores=cores))
    reference = ReferenceLoader(workers)
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
def test_two_real_loaders_have_separate_costs(workers: int) -> None:
    """Both cost something, the workers of neither count as the other's, and none is left."""
    clock, before = MonotonicClock(), set(ProcessTree().worker_pids)
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
