"""How long the sessions of one subject may take in all, and messages about slow ones."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from netpipe.clock import Clock, MonotonicClock
from netpipe.errors import OutOfTimeError
from netpipe.jobs.progress import Progress
from netpipe.jobs.request import OVERTIME_S, SessionRequest

# Imports, the start of the loader and the compilation of the step, for each further session.
_START_UP_S: Final = 60.0

_FIRST_MESSAGE_AFTER_S: Final = 15.0

_Request = TypeVar("_Request", bound=SessionRequest)
_Result = TypeVar("_Result")


def limit_s(request: SessionRequest, sessions: int) -> float:
    """Return the seconds that some sessions may take in all.

    One of them may use every limit of a session in full; the others share what it leaves.
    """
    return request.limit_s + (sessions - 1) * (request.budget_s + OVERTIME_S + _START_UP_S)


@dataclass
class TimeLimit:
    """The seconds that sessions may take in all."""

    limit_s: float
    clock: Clock = field(default_factory=MonotonicClock)
    _spent_s: float = 0.0
    _longest_s: float = 0.0

    def run(self, request: _Request, measure: Callable[[_Request], _Result]) -> _Result:
        """Run a session, or several at once, within the time that is left.

        `measure` runs it, given the request limited to that time.

        Raises:
            OutOfTimeError: Less time is left than the longest call took.
        """
        left_s = self.limit_s - self._spent_s
        if left_s < max(self._longest_s, 1.0):
            raise OutOfTimeError(
                f"no more sessions: {self._spent_s:.0f} of at most {self.limit_s:.0f} s are over"
            )
        started_s = self.clock()
        try:
            return measure(replace(request, time_left_s=left_s))
        finally:
            took_s = self.clock() - started_s
            self._spent_s += took_s
            self._longest_s = max(self._longest_s, took_s)


class LongPhases:
    """Tells the user what a session is waiting for, when a phase of unknown length takes long."""

    def __init__(self, say: Callable[[str], None], clock: Clock | None = None) -> None:
        self._say = say
        self._clock = clock or MonotonicClock()
        self._doing = ""
        self._since_s = self._next_s = 0.0

    def __call__(self, progress: Progress) -> None:
        """Receive the progress of the session."""
        now_s = self._clock()
        if progress.doing != self._doing:
            self._doing, self._since_s, self._next_s = progress.doing, now_s, _FIRST_MESSAGE_AFTER_S
        elif not progress.of_s and now_s - self._since_s >= self._next_s:
            self._next_s *= 2
            self._say(", ".join(filter(None, (progress.doing, progress.detail))))
