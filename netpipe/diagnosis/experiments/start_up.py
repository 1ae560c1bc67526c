"""Splits the time to a loader's first batch into its parts, in a separate start.

If `loader()` imports grain, that is part of the start, so this module must not import it.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from netpipe.clock import Clock
from netpipe.files.temporary_folders import temporary_folder
from netpipe.grain_access.observed_sources import observed_sources
from netpipe.jobs.heartbeat import Watch
from netpipe.jobs.targets import Factories
from netpipe.measuring.loader_puller import Puller, close_with_timeout
from netpipe.results.start_up import StartUp


class Notes:
    """Records when it arrives in a worker, and when the first read of a source begins and ends."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._has_read = folder, False

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        _note(self._folder, "arrived")

    def __call__(self, read: Callable[[Any], Any], index: Any) -> Any:
        """Return the element; record the times of the first read."""
        if self._has_read:
            return read(index)
        _note(self._folder, "asked")
        element = read(index)
        _note(self._folder, "read")
        self._has_read = True
        return element


def _note(notes: Path, event: str) -> None:
    """Record the time of an event in the name of a file; all processes share the clock."""
    # A worker may still be reading after the folder has been removed.
    with suppress(OSError):
        (notes / f"{event} {time.monotonic()}").touch()


def first_times(notes: Iterable[str]) -> dict[str, float]:
    """Return the time of each event, the first one if several threads or workers recorded it."""
    noted = (note.split() for note in notes)
    return dict(sorted(((event, float(at_s)) for event, at_s in noted), reverse=True))


def observe_start(subject: Factories, watch: Watch) -> StartUp:
    """Start a loader, and return the parts of the time to its first batch."""
    with temporary_folder("start") as notes, ExitStack() as restoring:

        def make() -> Any:
            made = subject.loader()
            restoring.enter_context(observed_sources(made, Notes(notes)))
            _note(notes, "made")
            return made

        puller = Puller(make, Clock(), watch)
        at_s = first_times(note.name for note in notes.iterdir())
        close_with_timeout(puller.close)
    shipping_s = at_s["arrived"] - at_s["made"] if "arrived" in at_s else None
    first_read_s = at_s["read"] - at_s["asked"] if "read" in at_s else None
    rest_s = puller.first_batch_s - puller.making_s - (shipping_s or 0.0) - (first_read_s or 0.0)
    # The parts overlap if this process reads while it starts workers.
    return StartUp(puller.making_s, max(0.0, rest_s), subject.import_s, shipping_s, first_read_s)
