"""Where the main thread stands still: its stack, looked at again and again from a side thread."""

import linecache
import os
import sys
import sysconfig
import threading
import time
from collections import defaultdict
from operator import itemgetter
from pathlib import Path
from types import FrameType
from typing import NamedTuple

import jax
import jaxlib
import numpy as np

from netpipe.results.measurement import BlockingLine
from netpipe.session.own_code import HARNESS_FOLDERS

_LOOK_S = 0.001
_MOST_LINES = 3
_NUMERICS = (*(str(Path(str(one.__file__)).parent) + os.sep for one in (jax, jaxlib, np)), "<")
_PYTHON = sysconfig.get_paths()["stdlib"] + os.sep
_SITE = ("site-packages", "dist-packages")


_Line = tuple[str, int] | None


class _Look(NamedTuple):
    """Where the main thread was, for how long, and how much of that it had computed.

    Looks at a thread that computes come less often, for it holds Python's lock.
    """

    line: _Line
    lasted_s: float
    worked_s: float


class StackSampler:
    """Looks every millisecond at the line of the trainer's code that the main thread is in.

    It costs the main thread nothing while that waits, and little while it works; all the same a
    block that is sampled is not one whose times count.
    """

    def __init__(self) -> None:
        self._main = threading.get_ident()
        self._cpu_clock = time.pthread_getcpuclockid(self._main)
        self._kept: list[_Look] = []
        self._now: list[_Look] = []
        self._looking = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="netpipe-stack-sampler")

    def __enter__(self) -> "StackSampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def begin(self) -> None:
        """Start to look: the trainer has its batch."""
        self._now, self._looking = [], True

    def end(self, *, counts: bool) -> None:
        """Stop looking: the trainer asks for the next batch.

        Args:
            counts: Whether what was seen since `begin` is to be kept.
        """
        self._looking = False
        if counts:
            self._kept += self._now

    def lines(self) -> tuple[BlockingLine, ...]:
        """Return the lines that were seen most, the first first."""
        lasted_s: dict[_Line, float] = defaultdict(float)
        worked_s: dict[_Line, float] = defaultdict(float)
        for look in self._kept:
            lasted_s[look.line] += look.lasted_s
            worked_s[look.line] += look.worked_s
        most = sorted(lasted_s.items(), key=itemgetter(1), reverse=True)
        total_s = sum(lasted_s.values())
        return tuple(
            BlockingLine(
                *line,
                linecache.getline(*line).strip(),
                fraction=seconds / total_s,
                working_fraction=min(1.0, worked_s[line] / seconds),
            )
            for line, seconds in most[: _MOST_LINES + 1]
            if line is not None
        )[:_MOST_LINES]

    def _look(self) -> None:
        looked_s, used_s = time.monotonic(), time.clock_gettime(self._cpu_clock)
        while not self._over.wait(_LOOK_S):
            before_s, looked_s = looked_s, time.monotonic()
            used_before_s, used_s = used_s, time.clock_gettime(self._cpu_clock)
            if self._looking:
                frame = sys._current_frames().get(self._main)  # noqa: SLF001  # the documented way
                line = trainers_line(frame)
                self._now.append(_Look(line, looked_s - before_s, used_s - used_before_s))


def trainers_line(frame: FrameType | None) -> tuple[str, int] | None:
    """Return the innermost line of the trainer's own code on a stack; None when there is none.

    Code of jax, of numpy and of Python was called by the trainer, code of other packages most
    likely too. What the harness called itself, such as the step, counts only when code of the
    trainer is below it.
    """
    installed = None
    while frame is not None and not frame.f_code.co_filename.startswith(HARNESS_FOLDERS):
        file, line = frame.f_code.co_filename, (frame.f_code.co_filename, frame.f_lineno)
        if not file.startswith(_NUMERICS):
            if any(one in file for one in _SITE):
                installed = installed or line
            elif not file.startswith(_PYTHON):
                return line
        frame = frame.f_back
    return installed
