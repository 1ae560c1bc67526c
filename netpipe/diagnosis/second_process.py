"""A second process that pulls at the same time, for what a second thread cannot show."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from select import select
from types import TracebackType
from typing import Any, Final

from netpipe.diagnosis.blocks import Pulled
from netpipe.harness.errors import SessionError

_START_S: Final = 60.0
_GRACE_S: Final = 20.0  # beyond the time asked for: a slow batch is pulled to its end


class SecondProcess:
    """A process with a lane of the same loader; started when it is entered.

    Args:
        target: The loader's, as `netpipe.harness.targets` reads it.

    Raises:
        SessionError: It could not start, or does not answer.
    """

    def __init__(self, target: str) -> None:
        self._target = target

    def __enter__(self) -> "SecondProcess":
        self._process = subprocess.Popen(
            [sys.executable, "-m", "netpipe.diagnosis.lane", self._target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "JAX_PLATFORMS": "cpu"},
        )
        self._answer(_START_S)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def pid(self) -> int:
        """Its id."""
        return self._process.pid

    def pulling(self, enough_s: float) -> Callable[[], Pulled]:
        """Let it pull for a while; return what waits for the end."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{enough_s}\n")
        self._process.stdin.flush()

        return lambda: Pulled(*self._answer(enough_s + _GRACE_S))

    def _answer(self, limit_s: float) -> Any:
        assert self._process.stdout is not None
        readable, _, _ = select([self._process.stdout], [], [], limit_s)
        line = self._process.stdout.readline() if readable else ""
        if not line:
            raise SessionError("a second process with the same loader did not answer")
        return json.loads(line)
