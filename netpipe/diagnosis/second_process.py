"""A second process that pulls from the same loader, for what a second thread cannot show.

Run as a module it is that process: it reads a number of seconds from each line of its standard
input, pulls for that long, and prints the fields of `PullCost` as JSON, or the loader's error.
Loader workers import it again there, so its top level imports nothing heavy.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import astuple
from select import select
from typing import TYPE_CHECKING, Any, Final

import psutil

from netpipe.errors import SessionError
from netpipe.session.processes import is_resource_tracker

if TYPE_CHECKING:
    from netpipe.diagnosis.blocks import PullCost

_FAILED: Final = "failed"
_FAREWELL_S: Final = 5.0
# Beyond the requested seconds: a slow batch is pulled to its end.
_GRACE_S: Final = 20.0


class SecondProcess:
    """A process with a single-thread run of the same loader; started when it is entered.

    Raises:
        SessionError: It could not start, or does not answer.
    """

    def __init__(self, target: str, start_limit_s: float = 60.0) -> None:
        self._target = target
        self._start_limit_s = start_limit_s

    def __enter__(self) -> "SecondProcess":
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "netpipe.diagnosis.second_process", self._target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
        )
        try:
            self._read_answer(self._start_limit_s)
        except BaseException:
            self._end(0.0)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end(_FAREWELL_S)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def start_pulling(self, min_s: float) -> "Callable[[], PullCost]":
        """Let the process pull for a while; return a function that waits for its result."""
        from netpipe.diagnosis.blocks import PullCost

        assert self._process.stdin is not None
        # If the process has ended, reading its answer says so.
        with suppress(BrokenPipeError):
            self._process.stdin.write(f"{min_s}\n")
            self._process.stdin.flush()
        return lambda: PullCost(*self._read_answer(min_s + _GRACE_S))

    def _read_answer(self, limit_s: float) -> Any:
        assert self._process.stdout is not None
        readable, _, _ = select([self._process.stdout], [], [], limit_s)
        line = self._process.stdout.readline() if readable else ""
        if not line:
            how = "ended" if readable else f"gave no answer for {limit_s:g} s"
            # Left alone, it would go on using the cores beside the other measurements.
            self._end(0.0)
            raise SessionError(f"a second process with the same loader {how}")
        answer = json.loads(line)
        if _FAILED in answer:
            raise SessionError(f"a second process with the same loader failed: {answer[_FAILED]}")
        return answer

    def _end(self, farewell_s: float) -> None:
        """Let the process stop its loader; after a while kill it and all its children."""
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                stream and stream.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(farewell_s)
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self._process.pid).children(recursive=True):
                # The tracker still has to remove the shared memory of the others.
                if not is_resource_tracker(child.pid):
                    child.kill()
        self._process.kill()
        self._process.wait()


def main() -> None:
    """Pull whenever the parent asks; the loader's target is the only argument."""
    # What the user's code prints must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)
    from netpipe.clock import MonotonicClock
    from netpipe.diagnosis.blocks import PullingThread
    from netpipe.diagnosis.loader_variants import single_thread_variant
    from netpipe.grain_workers import let_grain_start_workers
    from netpipe.session.bounded_calls import summarize_error
    from netpipe.session.targets import resolve

    try:
        let_grain_start_workers()
        loader, _ = single_thread_variant(resolve(sys.argv[1]))
        with closing(PullingThread(loader, MonotonicClock())) as puller:
            print(json.dumps("ready"), file=answers)
            for line in sys.stdin:
                cost = puller.start_pulling(float(line))()
                print(json.dumps(astuple(cost)), file=answers)
    except Exception as error:  # noqa: BLE001  # the user's code may raise anything
        print(json.dumps({_FAILED: summarize_error(error)}), file=answers)


if __name__ == "__main__":
    main()
