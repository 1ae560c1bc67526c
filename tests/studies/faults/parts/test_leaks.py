"""Changes of batches that keep memory or shared memory, and sources that are slow once."""

import pickle
from multiprocessing import resource_tracker
from pathlib import Path

import pytest

from perf_tests.studies.faults.families import starts
from perf_tests.studies.faults.parts import leaks
from perf_tests.studies.faults.parts.batches import batch
from perf_tests.studies.faults.parts.leaks import Keeping, SharingMemory, share

BATCH = batch(0)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return an empty list that replaces the kept memory."""
    arrays: list[object] = []
    monkeypatch.setattr(leaks, "_kept", arrays)
    return arrays


def test_part_of_each_batch_is_kept(kept: list[object]) -> None:
    """Every batch is kept, until one number, or only those of the last of several workers."""
    for number in range(6):
        assert Keeping(10)(number, BATCH) is BATCH
    assert len(kept) == 6
    for number in range(6):
        Keeping(10, until=2)(number, BATCH)
        Keeping(10, every=3)(number, BATCH)
    assert len(kept) == 6 + 2 + 2


def test_shared_memory_stays_unless_it_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of the given size stays in /dev/shm unless it is removed."""
    # A resource tracker would be a process that the test leaves behind.
    for name in ("register", "unregister"):
        monkeypatch.setattr(resource_tracker, name, lambda *_: None)
    shared = share(5000)
    file = Path("/dev/shm", shared.name)
    assert file.stat().st_size == 5000
    monkeypatch.setattr(leaks, "share", lambda _: shared)
    SharingMemory(5000, removes=True)(0, BATCH)
    assert not file.exists()


def test_a_slow_source_is_slow_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One source waits when unpickled, the other at its first read."""
    waits_s: list[float] = []
    monkeypatch.setattr(starts, "wait", waits_s.append)
    pickle.loads(pickle.dumps(starts.Arriving(arriving_s=3.0)))
    assert waits_s == [3.0]
    opening = starts.Opening(opening_s=4.0)
    for number in range(3):
        opening[number]
    assert waits_s == [3.0, 4.0]
