"""A session's progress, which its process writes to a file and its parent reads.

A file that is replaced whole needs no listener, survives the end of either side, and costs nothing
when nobody reads it.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from netpipe.clock import Clock

# Drawing more often would take time from what is measured.
_REPEAT_S: Final = 0.5


@dataclass(frozen=True)
class Progress:
    """What a session does, and how much of its time is over.

    Attributes:
        doing: The phase it is in, in words.
        detail: Where it is in that phase; "" where there is nothing to say.
        done_s: Seconds of `of_s` that are over; 0 while `of_s` is unknown.
        of_s: Seconds that the whole session is likely to take; 0: not known yet.
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
    """Writes this session's progress.

    Args:
        file: The file to write.
        clock: Seconds.
    """

    def __init__(self, file: Path, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._since_s = 0.0
        self._of_s = 0.0

    def enter_phase(self, phase: str, of_s: float = 0.0, detail: str = "") -> None:
        """Write the phase that begins; see `Watch.enter_phase`."""
        now_s = self._clock()
        if not self._of_s:
            self._since_s = now_s
        self._of_s = of_s
        progress = Progress(phase, now_s - self._since_s, of_s, detail)
        part = self._file.with_suffix(".part")
        # A folder that is full or gone is no reason to lose a measurement.
        with suppress(OSError):
            part.write_text(json.dumps(asdict(progress)), encoding="utf-8")
            part.replace(self._file)


class ProgressReader:
    """Passes on the progress that a session writes.

    Args:
        file: The file that the session writes.
        on_progress: Called with the progress.
        clock: Seconds.
    """

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
        written = _read_progress(text) if text else _STARTING
        done_s = min(written.done_s + now_s - self._read_s, written.of_s)
        self._on_progress(replace(written, done_s=done_s))


def _read_progress(text: str) -> Progress:
    values = json.loads(text)
    return Progress(values["doing"], values["done_s"], values["of_s"], values["detail"])
