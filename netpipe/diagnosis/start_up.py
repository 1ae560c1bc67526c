"""Splits the time to a loader's first batch, in a start of its own.

It does not import grain: if `loader()` does, that is part of the start.
"""

import time
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

from netpipe.clock import MonotonicClock
from netpipe.linting.graph.grain_classes import replace_source
from netpipe.linting.graph.reader import collect_datasets
from netpipe.measuring.loader_puller import Puller, close_with_timeout
from netpipe.measuring.request import Factories
from netpipe.results.start_up import StartUp
from netpipe.session.heartbeat import Watch
from netpipe.temporary_folders import temporary_folder


class NotingSource:
    """A source that notes when it arrives in a worker, and when its first read begins and ends."""

    def __init__(self, source: Any, notes: Path) -> None:
        self.source, self._notes, self._is_read = source, notes, False

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        _note(self._notes, "arrived")

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: int) -> Any:
        if self._is_read:
            return self.source[index]
        _note(self._notes, "asked")
        element = self.source[index]
        _note(self._notes, "read")
        self._is_read = True
        return element


def _note(notes: Path, event: str) -> None:
    """Note when an event happens, as the name of a file; all processes share the clock."""
    # A worker may still read when the folder has been removed.
    with suppress(OSError):
        (notes / f"{event} {time.monotonic()}").touch()


def observe_start(subject: Factories, watch: Watch) -> StartUp:
    """Start a loader, and return where the time to its first batch goes."""
    with temporary_folder("start") as notes, ExitStack() as restoring:

        def make() -> Any:
            made = subject.loader()
            for dataset in collect_datasets(made).values():
                replace_source(dataset, partial(NotingSource, notes=notes))
                # A loader may return the same dataset each time.
                restoring.callback(replace_source, dataset, lambda noting: noting.source)
            _note(notes, "made")
            return made

        puller = Puller(make, MonotonicClock(), watch)
        noted = [note.name.split() for note in notes.iterdir()]
        close_with_timeout(puller.close)
    # Of several threads and workers, the first counts.
    at_s = dict(sorted(((event, float(at_s)) for event, at_s in noted), reverse=True))
    shipping_s = at_s["arrived"] - at_s["made"] if "arrived" in at_s else None
    first_read_s = at_s["read"] - at_s["asked"] if "read" in at_s else None
    rest_s = puller.first_batch_s - puller.making_s - (shipping_s or 0.0) - (first_read_s or 0.0)
    # They overlap if this process reads while it starts workers.
    return StartUp(puller.making_s, max(0.0, rest_s), subject.import_s, shipping_s, first_read_s)
