"""Loaders whose maps run another program, as a loader that decodes video with ffmpeg does."""

import subprocess
import sys
from typing import Any

import numpy as np

USED_S = 0.2
"""Fewest CPU seconds that a program uses for an element, not counting its start."""

# For every line, the program computes and prints the CPU seconds that it has used until now.
PROGRAM = f"""
import os, sys, time
for line in sys.stdin:
    ends_s = time.process_time() + {USED_S}
    while time.process_time() < ends_s: pass
    print(time.process_time(), flush=True)
os._exit(0)
"""


class Helper:
    """A program that computes on demand."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", PROGRAM],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def compute(self) -> float:
        """Make the program compute; return the CPU seconds that it has used in all."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("compute\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self) -> None:
        """Make the program end, and wait for that."""
        self.process.communicate()


class EndingHelpers:
    """A program for each element, which ends with the element."""

    def close(self) -> None:
        """Do nothing, because no program lives."""

    def load(self, _: Any) -> Any:
        """Return the CPU seconds that the program reports."""
        helper = Helper()
        used_s = helper.compute()
        helper.end()
        return np.array([used_s])


class LivingHelper:
    """One program for all elements, which lives as long as the process that loads."""

    _helper: Helper | None = None
    _used_s = 0.0

    def close(self) -> None:
        """End the program of this process."""
        if self._helper is not None:
            self._helper.end()

    def load(self, _: Any) -> Any:
        """Return the CPU seconds that the program reports for this element."""
        self._helper = self._helper or Helper()
        before_s, self._used_s = self._used_s, self._helper.compute()
        return np.array([self._used_s - before_s])
