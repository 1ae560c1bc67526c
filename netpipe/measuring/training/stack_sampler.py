"""The lines at which the main thread blocks, sampled from a side thread."""

import linecache
import os
import sys
import threading
import time
from collections import defaultdict
from pathlib import Path
from types import FrameType

import jax
import jaxlib
import numpy as np

from netpipe.jobs.failure import HARNESS_FOLDERS, SITE_FOLDERS, STDLIB_FOLDER
from netpipe.results.measurement import BlockingLine

_SAMPLE_INTERVAL_S = 0.001
_MAX_LINES = 3
_NUMERIC_FOLDERS = [str(Path(str(module.__file__)).parent) for module in (jax, jaxlib, np)]
# Generated code has a name like "<string>" instead of a file.
_SKIPPED_PREFIXES = (*(folder + os.sep for folder in _NUMERIC_FOLDERS), "<")

_Line = tuple[str, int]
# A line of the main thread, the seconds spent there, and the CPU seconds used meanwhile.
_Sample = tuple[_Line | None, float, float]


class StackSampler:
    """Samples, every millisecond, which line of the trainer's code the main thread runs."""

    def __init__(self) -> None:
        self._main = threading.get_ident()
        self._cpu_clock = time.pthread_getcpuclockid(self._main)
        self._kept: list[_Sample] = []
        self._current: list[_Sample] = []
        self._sampling = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="netpipe-stack-sampler")

    def __enter__(self) -> "StackSampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def begin(self) -> None:
        """Start sampling, now that the trainer has its batch."""
        self._current, self._sampling = [], True

    def end(self, *, counts: bool) -> None:
        """Stop sampling at the next request; keep the samples since `begin` if `counts` is true."""
        self._sampling = False
        if counts:
            self._kept += self._current

    def lines(self) -> tuple[BlockingLine, ...]:
        """Return the lines that took the most time, the slowest first."""
        lasted_s: dict[_Line | None, float] = defaultdict(float)
        worked_s: dict[_Line | None, float] = defaultdict(float)
        for sampled, lasted, worked in self._kept:
            lasted_s[sampled] += lasted
            worked_s[sampled] += worked
        longest = sorted(lasted_s, key=lasted_s.__getitem__, reverse=True)
        lines = [line for line in longest if line is not None]
        total_s = sum(lasted_s.values())
        return tuple(
            BlockingLine(
                *line,
                linecache.getline(*line).strip(),
                fraction=lasted_s[line] / total_s,
                working_fraction=min(1.0, worked_s[line] / lasted_s[line]),
            )
            for line in lines[:_MAX_LINES]
        )

    def _run(self) -> None:
        now_s, used_s = time.monotonic(), time.clock_gettime(self._cpu_clock)
        while not self._over.wait(_SAMPLE_INTERVAL_S):
            before_s, now_s = now_s, time.monotonic()
            used_before_s, used_s = used_s, time.clock_gettime(self._cpu_clock)
            if self._sampling:
                frame = sys._current_frames().get(self._main)  # noqa: SLF001  # the documented way
                line = find_trainers_line(frame)
                self._current.append((line, now_s - before_s, used_s - used_before_s))


def find_trainers_line(frame: FrameType | None) -> _Line | None:
    """Return the innermost line of the trainer's own code on a stack, or None.

    Lines in jax, NumPy and the standard library do not count. Other packages count only if
    the trainer has no line of its own. The search ends at the harness's code.
    """
    installed = None
    while frame is not None and not frame.f_code.co_filename.startswith(HARNESS_FOLDERS):
        file, line = frame.f_code.co_filename, (frame.f_code.co_filename, frame.f_lineno)
        if not file.startswith(_SKIPPED_PREFIXES):
            if any(folder in file for folder in SITE_FOLDERS):
                installed = installed or line
            elif not file.startswith(STDLIB_FOLDER):
                return line
        frame = frame.f_back
    return installed
