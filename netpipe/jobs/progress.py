"""A session's progress, which its process writes to a file and its parent reads.

The file needs no listener, survives the end of either side, and costs nothing without a reader.
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
from netpipe.files.whole_file import write_whole

# Drawing more often would disturb the measurement.
_REPEAT_S: Final = 0.5


@dataclass(frozen=True)
class Progress:
    """The current phase of a session, and how much of the session's time is over.

    Attributes:
        done_s: Seconds of `of_s` that are over; 0 while `of_s` is not known.
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
"""A function called when a session enters a phase, and twice a second after that."""


class ProgressWriter:
    """Writes this session's progress to a file, even from several threads."""

    def __init__(self, file: Path, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._since_s = 0.0
        self._of_s = 0.0
        self._lock = Lock()

    def enter_phase(self, phase: str, of_s: float = 0.0, detail: str = "") -> None:
        """Write the phase that begins; see `Watch.enter_phase`."""
        now_s = self._clock()
        # A full disk must not end a measurement.
        with self._lock, suppress(InputError):
            if not self._of_s:
                self._since_s = now_s
            self._of_s = of_s
            progress = Progress(phase, now_s - self._since_s, of_s, detail)
            write_whole(self._file, json.dumps(asdict(progress)), "progress", lasts=False)


class ProgressReader:
    """Reads a session's progress from its file, and reports it."""

    def __init__(self, file: Path, on_progress: OnProgress, clock: Clock) -> None:
        self._file = file
        self._on_progress = on_progress
        self._clock = clock
        self._text: str | None = None
        self._read_s = 0.0
        self._passed_on_s = 0.0

    def poll(self) -> None:
        """Report the progress if it is new, or if the last report is half a second old."""
        now_s = self._clock()
        try:
            text = self._file.read_text(encoding="utf-8")
        except FileNotFoundError:  # The session has not written its progress yet.
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
