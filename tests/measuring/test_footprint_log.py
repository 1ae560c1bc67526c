"""Growth with the batches, on readings that follow a script."""

import os
import re
import subprocess
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from netpipe.jobs import footprint
from netpipe.measuring.footprint_log import FootprintLog
from netpipe.measuring.loader_puller import Puller
from netpipe.results.measurement import Finding
from tests.fakes import FakeClock

HERE, FIRST, SECOND, HELPER = os.getpid(), 11, 12, 13
PSS, OWN_SHARE = 200e6, 0.5
BATCH_BYTES = 1_000_000
Script = Callable[[int], float]


class Scripted:
    """A session whose readings follow scripts of the batches given so far."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches = 0
        self.free: Script = lambda _: 0
        self.memory: dict[int, Script] = dict.fromkeys((HERE, FIRST, SECOND, HELPER), lambda _: PSS)
        self.open: dict[int, Script] = {}
        self.files: Callable[[int], dict[str, int]] = lambda _: {}
        self.reading_s = 0.0
        self.has_others = False
        self.pids: tuple[int, ...] = (FIRST, SECOND, HELPER)
        self.clock = FakeClock()
        monkeypatch.setattr(footprint, "read_pss", self._read_pss)
        monkeypatch.setattr(footprint, "free_heap_bytes", lambda: int(self.free(self.batches)))
        monkeypatch.setattr(footprint, "count_open_files", self._count)
        monkeypatch.setattr(footprint, "list_shared_files", lambda: self.files(self.batches))
        monkeypatch.setattr(footprint, "is_shared_memory_used_elsewhere", lambda: self.has_others)
        self.log = FootprintLog(self.clock)

    @property
    def puller(self) -> Puller:
        """A puller with two workers and a helper process."""
        workers = tuple(pid for pid in self.pids if pid != HELPER)
        tree = SimpleNamespace(pids=self.pids, worker_pids=workers)
        return cast(Puller, SimpleNamespace(pulled=self.batches, list_processes=lambda: tree))

    def _read_pss(self, pid: int) -> tuple[int, int]:
        self.clock.sleep(self.reading_s)
        own = int(self.memory[pid](self.batches))
        return own + int(PSS * (1 - OWN_SHARE)), own

    def _count(self, pid: int) -> int:
        script = self.open.get(pid)
        return int(script(self.batches)) if script else 10

    def run(self, rounds: int = 9, batches: int = 100) -> dict[str, str]:
        """Read once a round; return the findings."""
        for _ in range(rounds):
            self.batches += batches
            self.clock.sleep(1.0)
            self.log.read(self.puller)
        return {finding.name: finding.message for finding in self.log.findings()}

    def left(self) -> Finding | None:
        """Return the finding after the loader was closed."""
        self.pids = (HELPER,)
        return self.log.find_left(self.puller, BATCH_BYTES)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    """A session in which nothing grows by default."""
    return Scripted(monkeypatch)


def growing(by: float, until: int = 10**9) -> Script:
    """Grow for each batch, up to the batch `until`."""
    return lambda batches: PSS + by * min(batches, until)


def test_nothing_grows(scripted: Scripted) -> None:
    """A healthy loader has no finding; its peak counts all processes."""
    assert scripted.run() == {}
    found = scripted.log.describe()
    assert found["peak_pss_bytes"] == 4 * (PSS + PSS * (1 - OWN_SHARE))
    assert found["growth_bytes_per_batch"].median == 0
    assert scripted.left() is None


@pytest.mark.parametrize(
    ("pid", "name"),
    [(HERE, "the training process"), (SECOND, "worker 2"), (HELPER, "a helper")],
    ids=["training", "worker", "helper"],  # pytest-xdist compares ids, and a pid differs
)
def test_the_growing_process_is_named(scripted: Scripted, pid: int, name: str) -> None:
    """Growth is a slope over batches, and the message names the process with most of it."""
    scripted.memory[pid] = growing(by=100e3)
    message = scripted.run()["memory-grows"]
    assert re.search(
        rf"100 kB for each batch .* 80 MB in 800 .*10 GB in 100,000.* {name}.*{pid}", message
    )
    assert "or lower per_worker_buffer_size, worker_buffer_size or the number of workers" in message
    found = scripted.log.describe()
    assert found["growth_bytes_per_batch"].median == pytest.approx(100e3)
    assert found["growing_process"].startswith(name)


def test_freed_memory_is_no_growth(scripted: Scripted) -> None:
    """Growth counts if the memory is in use, however much of it the C library keeps."""
    scripted.memory[HERE] = growing(by=100e3)
    scripted.free = lambda batches: 100e3 * batches
    assert scripted.run() == {}


@pytest.mark.parametrize(
    "memory",
    [
        growing(by=9e3),  # 0.9 GB in a long training
        lambda batches: PSS + 30e3 * batches + 5e6 * (batches // 100 % 2),  # 24 MB, not steady
        growing(by=200e3, until=450),  # a buffer that is full then
        growing(by=200e3, until=650),
        lambda batches: PSS + 100e6 * (batches // 100 % 2),  # up and down
        lambda batches: PSS + 100e6 * (batches == 900),  # once
        lambda batches: 2 * PSS - 100e3 * batches,  # shrinks
    ],
)
def test_noise_is_no_growth(scripted: Scripted, memory: Script) -> None:
    """A little, a buffer that fills, a sawtooth and an outlier do not count as growth."""
    scripted.memory[FIRST] = memory
    assert scripted.run() == {}


def test_a_steady_leak_is_judged_by_a_long_training(scripted: Scripted) -> None:
    """A precise slope is a finding, although memory grows by only 24 MB in the rounds."""
    scripted.memory[FIRST] = lambda batches: PSS + 30e3 * batches + 1e5 * (batches // 100 % 2)
    message = scripted.run()["memory-grows"]
    assert re.search(r"24.* MB in 800 batches, which would be 3.* GB in 100,000", message)


def test_a_steady_loss_of_files_is_judged_by_a_long_training(scripted: Scripted) -> None:
    """Files in shared memory and open files are judged in the same way."""
    scripted.open = {FIRST: lambda batches: 10 + batches // 50}
    scripted.files = lambda batches: {f"left-{n}": 2_000 for n in range(batches)}
    found = scripted.run()
    assert "by 0.02 for each batch (0.02 to 0.02), by 16 in 800 batches" in found["open-files-grow"]
    assert "2 kB for each batch" in found["shared-memory-grows"]


@pytest.mark.parametrize(
    ("memory", "may_leak"),
    [
        (growing(by=30e3), True),
        (growing(by=9e3), False),
        (growing(by=30e3, until=300), False),
        (lambda batches: PSS + 30e3 * min(batches, 400) + 3e3 * batches, False),
        (lambda batches: PSS + 30e3 * batches + 1e7 * (batches // 100 % 2), False),
    ],
    ids=["grows", "little", "stops", "slows", "unsure"],
)
def test_a_leak_that_is_possible_needs_all_rounds(
    scripted: Scripted, memory: Script, *, may_leak: bool
) -> None:
    """The slope is surely above 0 and lasts, and would be a finding if it were precise."""
    scripted.memory[FIRST] = memory
    scripted.run(rounds=6)
    assert scripted.log.may_leak is may_leak


def test_a_worker_that_starts_late_has_not_grown(scripted: Scripted) -> None:
    """One extra process does not count as growth."""
    scripted.pids = (FIRST, HELPER)
    scripted.run(rounds=5)
    scripted.pids = (FIRST, HELPER, SECOND)
    assert scripted.run(rounds=5) == {}


@pytest.mark.parametrize(("kept_anew", "is_found"), [(0.0, False), (20e6, True)])
def test_workers_of_each_epoch_are_one_pool(
    scripted: Scripted, *, kept_anew: float, is_found: bool
) -> None:
    """If no worker is in all readings, their sum is judged."""
    for epoch in range(9):
        scripted.pids = (HELPER, FIRST + 100 * epoch)
        scripted.memory[scripted.pids[1]] = lambda _, epoch=epoch: PSS + kept_anew * epoch  # type: ignore[misc]
        found = scripted.run(rounds=1)
    assert ("memory-grows" in found) is is_found
    assert "workers" in found.get("memory-grows", "workers")


def test_few_readings_are_not_judged(scripted: Scripted) -> None:
    """Four readings give a finding instead, as the interval is unbounded."""
    scripted.memory[FIRST] = growing(by=1e6)
    found = scripted.run(rounds=4)
    assert set(found) == {"growth-not-judged"}
    assert "4 readings, 5 needed" in found["growth-not-judged"]
    assert scripted.log.describe()["growth_bytes_per_batch"].high == float("inf")


def test_reading_takes_little_of_the_time(scripted: Scripted) -> None:
    """If reading takes long, some rounds are skipped."""
    scripted.reading_s = 0.2
    scripted.run(rounds=30)
    assert 2 <= scripted.log.describe()["growth_bytes_per_batch"].n <= 6


def test_without_the_kernel_there_is_no_figure(scripted: Scripted) -> None:
    """Without readings the fields stay empty."""
    log = FootprintLog(scripted.clock)
    assert log.describe() == {}
    assert list(log.findings()) == []


def test_files_that_stay_in_shared_memory_are_found(scripted: Scripted) -> None:
    """Files that stay are found with their names, and again after the close."""
    scripted.files = lambda batches: {f"left-{n}": 100_000 for n in range(batches)}
    message = scripted.run()["shared-memory-grows"]
    assert re.search(r"\d+ files of .* MB in /dev/shm, such as left-", message)
    left = scripted.left()
    assert left is not None
    assert left.name == "left-after-close"
    assert "/dev/shm" in left.message


def test_batches_on_their_way_are_not_left(scripted: Scripted) -> None:
    """Files that come and go, or are older than the loader, do not count."""
    scripted.files = lambda batches: (
        {"old": 10**9} | {f"psm-{n}": 10_000_000 for n in range(batches, batches + 50)}
    )
    scripted.log = FootprintLog(scripted.clock)
    assert scripted.run() == {}
    assert scripted.left() is None


@pytest.mark.parametrize(
    ("name", "has_others", "is_found"),
    [("psm_", False, True), ("psm_", True, False), ("mine", True, True)],
)
def test_nobody_knows_whose_a_file_is(
    scripted: Scripted, name: str, *, has_others: bool, is_found: bool
) -> None:
    """Files with Python's random names are not judged if another program may have made them."""
    scripted.has_others = has_others
    scripted.files = lambda batches: {f"{name}{n}": 100_000 for n in range(batches)}
    found = scripted.run()
    assert ("shared-memory-grows" in found) is is_found
    assert ("shared-memory-not-judged" in found) is not is_found
    assert (scripted.left() is not None) is is_found


@pytest.mark.parametrize(("size", "is_left"), [(4_000_000, False), (5_000_000, True)])
def test_kept_batches_may_remain(scripted: Scripted, size: int, is_left: bool) -> None:
    """The session keeps a few batches itself; only larger files are left by the loader."""
    scripted.files = lambda batches: {"one": size} if batches else {}
    assert scripted.run() == {}
    assert (scripted.left() is not None) is is_left


@pytest.mark.parametrize("is_older", [False, True])
def test_workers_that_still_run_are_left(scripted: Scripted, *, is_older: bool) -> None:
    """A running child of the loader is named; an older one is not."""
    with subprocess.Popen(["sleep", "60"]) as worker:
        if is_older:
            scripted.log = FootprintLog(scripted.clock)
        scripted.pids = (worker.pid, HELPER)
        scripted.memory[worker.pid] = lambda _: PSS
        scripted.run()
        left = scripted.log.find_left(scripted.puller, BATCH_BYTES)
        worker.kill()
    assert (left is None) is is_older
    assert left is None or f"worker 1 (pid {worker.pid})" in left.message


def test_open_files_that_grow_are_found(scripted: Scripted) -> None:
    """The process whose open files grow is named."""
    scripted.open = {FIRST: lambda batches: 10 + batches}
    assert re.search(r"by 1 for each batch .* worker 1 ", scripted.run()["open-files-grow"])
    assert scripted.left() is None


def test_open_files_that_remain_are_left(scripted: Scripted) -> None:
    """More descriptors than in the first round are a finding after the close."""
    scripted.open = {HERE: lambda batches: 10 + batches // 10}
    scripted.run()
    assert "80 more open files" in cast(Any, scripted.left()).message
