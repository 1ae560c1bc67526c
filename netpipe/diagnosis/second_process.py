"""A second process that pulls at the same time, for what a second thread cannot show."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from select import select
from types import TracebackType
from typing import Any, Final

import psutil

from netpipe.diagnosis.blocks import PullCost
from netpipe.errors import SessionError
from netpipe.session.processes import is_resource_tracker

FAILED: Final = "failed"
"""Under which it answers with what its loader raised."""

_FAREWELL_S: Final = 5.0
_GRACE_S: Final = 20.0  # beyond the time asked for: a slow batch is pulled to its end


class SecondProcess:
    """A process with a lane of the same loader; started when it is entered.

    Args:
        target: The loader's, as `netpipe.session.targets` reads it.
        start_limit_s: Seconds until it has to be ready.

    Raises:
        SessionError: It could not start, or does not answer.
    """

    def __init__(self, target: str, start_limit_s: float = 60.0) -> None:
        self._target = target
        self._start_limit_s = start_limit_s

    def __enter__(self) -> "SecondProcess":
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "netpipe.diagnosis.pulling_process", self._target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
        )
        try:
            self._answer(self._start_limit_s)
        except BaseException:
            self._end(0.0)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(_FAREWELL_S)

    @property
    def pid(self) -> int:
        """Its id."""
        return self._process.pid

    def start_pulling(self, enough_s: float) -> Callable[[], PullCost]:
        """Let it pull for a while; return what waits for the end."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended, and no answer comes
            self._process.stdin.write(f"{enough_s}\n")
            self._process.stdin.flush()

        return lambda: PullCost(*self._answer(enough_s + _GRACE_S))

    def _answer(self, limit_s: float) -> Any:
        assert self._process.stdout is not None
        readable, _, _ = select([self._process.stdout], [], [], limit_s)
        line = self._process.stdout.readline() if readable else ""
        if not line:
            how = "ended" if readable else f"gave no answer for {limit_s:g} s"
            self._end(0.0)  # nobody would wait for it any more, and it would go on beside others
            raise SessionError(f"a second process with the same loader {how}")
        answer = json.loads(line)
        if FAILED in answer:
            raise SessionError(f"a second process with the same loader failed: {answer[FAILED]}")
        return answer

    def _end(self, farewell_s: float) -> None:
        """Let it stop its loader; after a while end it, and all that it has started."""
        for stream in (self._process.stdin, self._process.stdout):
            with suppress(BrokenPipeError):
                stream and stream.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(farewell_s)
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self._process.pid).children(recursive=True):
                if not is_resource_tracker(child.pid):  # it removes the shared memory of the others
                    child.kill()
        self._process.kill()
        self._process.wait()
