"""The parts of the time to a loader's first batch."""

import time
from collections.abc import Mapping
from functools import partial
from itertools import permutations
from typing import Any

import grain
import pytest

from netpipe.diagnosis.experiments.start_up import Notes, first_times, observe_start
from netpipe.grain_access.worker_start import let_grain_start_workers
from netpipe.jobs.heartbeat import UNWATCHED
from netpipe.jobs.targets import Factories
from netpipe.results.start_up import START_PARTS, StartUp
from tests.diagnosis import loaders


class Slow(loaders.Numbers):
    """A source that is slow to unpickle, and slow to read for the first time."""

    def __init__(self, sleeps_s: Mapping[str, float]) -> None:
        self.sleeps_s = dict(sleeps_s)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        time.sleep(self.sleeps_s["shipping_s"])

    def __getitem__(self, index: int) -> int:
        time.sleep(self.sleeps_s.pop("first_read_s", 0.0))
        return int(index)


def wait_once(sleeps_s: dict[str, float], batch: Any) -> Any:
    """Return a batch, slowly the first time."""
    time.sleep(sleeps_s.pop("rest_s", 0.0))
    return batch


NOT_SLOW = dict.fromkeys(START_PARTS, 0.0)


def slow(sleeps_s: Mapping[str, float], workers: int = 1) -> Any:
    """Make a pipeline in which each part of the start takes some seconds longer."""
    time.sleep(sleeps_s["making_s"])
    numbers = grain.MapDataset.source(Slow(sleeps_s)).to_iter_dataset(loaders.ALONE)
    batches = numbers.batch(4).map(partial(wait_once, dict(sleeps_s)))
    return batches.mp_prefetch(grain.MultiprocessingOptions(workers))


def start(loader: Any, import_s: float | None = None) -> StartUp:
    """Observe one start."""
    let_grain_start_workers()
    return observe_start(Factories(loader, import_s=import_s), UNWATCHED)


def test_slowness_counts_in_its_own_part() -> None:
    """A slow index, unpickling, first read and map in a worker count once, in their own part."""
    shipping_s = start(partial(slow, NOT_SLOW)).shipping_s
    assert shipping_s is not None
    sleeps_s = {"making_s": 0.5, "first_read_s": 0.6, "rest_s": 0.7}
    sleeps_s["shipping_s"] = 1 + 2 * shipping_s
    began_s = time.monotonic()
    found = vars(start(partial(slow, sleeps_s), import_s=0.0))
    assert all(found[part] >= slept_s for part, slept_s in sleeps_s.items())
    # No part holds another one.
    assert sum(found[part] for part in START_PARTS) <= time.monotonic() - began_s


def test_the_first_of_several_workers_counts() -> None:
    """All parts are seen, and none is below 0."""
    found = start(partial(slow, NOT_SLOW, workers=2), import_s=1.0)
    assert all(seconds is not None and seconds >= 0 for seconds in vars(found).values())
    assert found.rest_s > 0


def test_the_first_of_several_threads_counts() -> None:
    """While one thread waits for its element, the first read of another ends."""
    notes = ["read 9.0", "asked 1.5", "read 1.75", "asked 1.0"]
    for order in permutations(notes):
        assert first_times(order) == {"asked": 1.0, "read": 1.75}


@pytest.mark.parametrize("loader", [loaders.plain, loaders.threaded, loaders.data_loader])
def test_without_workers_nothing_is_sent(loader: Any) -> None:
    """The first read is still seen, even in threads."""
    found = start(loader)
    assert found.shipping_s is None
    assert found.import_s is None
    assert found.first_read_s is not None


@pytest.mark.parametrize("loader", [lambda: iter([1, 2]), lambda: [1], loaders.Streaming])
def test_unseen_parts_are_in_the_rest(loader: Any) -> None:
    """A loader without a Grain source lacks these parts, which are then not 0."""
    found = start(loader)
    assert (found.shipping_s, found.first_read_s) == (None, None)
    assert found.rest_s > 0


def test_the_source_is_restored() -> None:
    """A loader that returns the same dataset each time keeps its own source."""
    before = loaders.list_sources(loaders.the_same())
    assert start(loaders.the_same).first_read_s is not None
    assert list(map(id, loaders.list_sources(loaders.the_same()))) == list(map(id, before))


def test_grains_own_source_is_seen() -> None:
    """Most loaders read from one."""
    numbers = grain.sources.RangeDataSource(0, 12, 1)
    found = start(lambda: grain.MapDataset.source(numbers).to_iter_dataset(loaders.ALONE))
    assert found.first_read_s is not None


def test_a_worker_may_read_after_the_notes_are_removed(tmp_path: Any) -> None:
    """The folder of the notes is removed after the first batch."""
    assert Notes(tmp_path / "removed")([7].__getitem__, 0) == 7
