"""How far a session is: its process says so in a file, which whoever waits for it reads.

A file that is replaced whole needs no listener, survives neither side's end, and costs nothing
where nobody looks.
"""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from netpipe.clock import Clock

_TELL_S: Final = 0.5  # a display that is drawn more often would take from what is measured


@dataclass(frozen=True)
class Progress:
    """What a session does, and how much of its time is over.

    Attributes:
        doing: What it does now, in words: a phase of it.
        detail: Where in that phase it is; "" where there is nothing to say.
        done_s: Seconds of `of_s` that are over; 0 while that is not known.
        of_s: Seconds that all of it is likely to take; 0: not known yet.
    """

    doing: str
    done_s: float = 0.0
    of_s: float = 0.0
    detail: str = ""

    def after(self, passed_s: float) -> "Progress":
        """Return where it is so many seconds later, if it still does the same."""
        return replace(self, done_s=min(self.done_s + passed_s, self.of_s))


_STARTING: Final = Progress("starting a process")

Tell = Callable[[Progress], object]
"""Hears of it when a session does something else, and now and then in between."""


class Teller:
    """Says what this session does.

    Args:
        file: Where it says so.
        clock: Seconds.
    """

    def __init__(self, file: Path, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._since_s = 0.0
        self._of_s = 0.0

    def doing(self, what: str, of_s: float = 0.0, detail: str = "") -> None:
        """Say what is done from now on; never inside a timed window.

        Args:
            what: In words, for whoever waits: a phase, of which there are few.
            of_s: Seconds that all takes, counted from the first time that they are given; 0: that
                is not known yet.
            detail: Where in that phase it is.
        """
        now_s = self._clock()
        if not self._of_s:
            self._since_s = now_s
        self._of_s = of_s
        part = self._file.with_suffix(".part")
        # A folder that is full or gone is no reason to lose a measurement.
        with suppress(OSError):
            part.write_text(
                json.dumps(asdict(Progress(what, now_s - self._since_s, of_s, detail))),
                encoding="utf-8",
            )
            part.replace(self._file)


class Follower:
    """Passes on what a session says of itself.

    Args:
        file: Where it says so.
        tell: Who hears of it.
        clock: Seconds.
    """

    def __init__(self, file: Path, tell: Tell, clock: Clock) -> None:
        self._file = file
        self._tell = tell
        self._clock = clock
        self._text: str | None = None
        self._read_s = 0.0
        self._told_s = 0.0

    def look(self) -> None:
        """Tell what the session does, where that is new or was not told for a while."""
        text, now_s = self._said(), self._clock()
        if text != self._text:
            self._text, self._read_s = text, now_s
        elif now_s - self._told_s < _TELL_S:
            return
        self._told_s = now_s
        self._tell(_progress(text).after(now_s - self._read_s))

    def _said(self) -> str:
        try:
            return self._file.read_text(encoding="utf-8")
        except FileNotFoundError:  # not yet
            return ""


def _progress(text: str) -> Progress:
    if not text:
        return _STARTING
    said = json.loads(text)
    return Progress(said["doing"], said["done_s"], said["of_s"], said["detail"])
