"""A session's progress, which its process writes to a file and its parent reads.

A file that is replaced whole needs no listener, survives the end of either side, and costs nothing
when nobody reads it.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Final

from netpipe.clock import Clock
from netpipe.errors import InputError
from netpipe.whole_file import write_whole

# Drawing more often would take time from what is measured.
_REPEAT_S: Final = 0.5


@dataclass(frozen=True)
class Progress:
    """What a session does, and how much of its time is over.

    Attributes:
        done_s: Seconds of `of_s` that are over; 0 while `of_s` is unknown.
    """

    doing: str
    done_s: float = 0.0
    of_s: float = 0.0
    detail: str = ""

    @property
    def description(self) -> str:
        """The phase with its detail."""
        return ", ".join(part for part in (self.doing, self.detail) if part)


_STARTING: Final = Progress("starting a process")

OnProgress = Callable[[Progress], object]
"""Called when a session enters a phase, and now and then in between."""


class ProgressWriter:
    """Writes this session's progress to a file, also from several threads."""

    def __init__(self, file: Path, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._since_s = 0.0
        self._of_s = 0.0
        self._lock = Lock()

    def enter_phase(self, phase: str, of_s: float = 0.0, detail: str = "") -> None:
        """Write the phase that begins; see `Watch.enter_phase`."""
        now_s = self._clock()
        # A folder that is full or gone is no reason to lose a measurement.
        with self._lock, suppress(InputError):
            if not self._of_s:
                self._since_s = now_s
            self._of_s = of_s
            progress = Progress(phase, now_s - self._since_s, of_s, detail)
            write_whole(self._file, json.dumps(asdict(progress)), "progress", lasts=False)


class ProgressReader:
    """Passes on the progress that a session writes to a file."""

    def __init__(self, file: Path, on_progress: OnProgress, clock: Clock) -> None:
        self._file = file
        self._on_progress = on_progress
        self._clock = clock
        self._text: str | None = None
        self._read_s = 0.0
        self._passed_on_s = 0.0

    def poll(self) -> None:
        """Pass the progress on if it is new, or was not passed on for a while."""
        now_s = self._clock()
        try:
            text = self._file.read_text(encoding="utf-8")
        except FileNotFoundError:  # the session has written nothing yet
            text = ""
        if text != self._text:
            self._text, self._read_s = text, now_s
        elif now_s - self._passed_on_s < _REPEAT_S:
            return
        self._passed_on_s = now_s
        progress = json.loads(text) if text else asdict(_STARTING)
        of_s = progress["of_s"]
        done_s = min(progress["done_s"] + now_s - self._read_s, of_s)
        self._on_progress(Progress(progress["doing"], done_s, of_s, progress["detail"]))
