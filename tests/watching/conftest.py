"""A watched run on a fake clock, without the watcher's thread."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from netpipe.watching import watcher as watcher_module
from netpipe.watching.watcher import Watcher
from tests.fakes import FakeClock

Watch = Callable[..., Watcher]


class Step:
    """The array of a step that is done at a moment of the fake clock."""

    def __init__(self, clock: FakeClock, done_s: float) -> None:
        self._clock, self._done_s = clock, done_s

    def is_ready(self) -> bool:
        """Return whether the moment has come."""
        return self._clock() >= self._done_s

    def is_deleted(self) -> bool:
        """Return False."""
        return False


@pytest.fixture
def watch(clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Return a function that watches batches, whose windows a test closes itself."""
    monkeypatch.setattr(Watcher, "_run", lambda _: None)
    monkeypatch.setattr(watcher_module, "read_memory", lambda: (10**8, 10**8))
    return lambda batches, log=None, **given: Watcher(batches, log, clock=clock, **given)


def loading(clock: FakeClock, load_s: float, watched: Callable[[], Watcher]) -> Iterator[Any]:
    """Yield batches, each after `load_s` seconds in which the watcher takes ten samples."""
    while True:
        for _ in range(10):
            clock.sleep(load_s / 10)
            watched().sample()
        yield {"x": 0}
