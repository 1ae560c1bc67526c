"""How long the sessions of one subject may take in all, and what is said of slow ones."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from netpipe.clock import Clock, MonotonicClock
from netpipe.errors import OutOfTimeError
from netpipe.measuring.request import MeasureRequest
from netpipe.session.progress import Progress
from netpipe.session.request import OVERTIME_S, SessionRequest

_AROUND_S: Final = 60.0  # of a further session: imports, the loader's start, compiling the step
_LONG_PHASE_S: Final = 15.0

_Result = TypeVar("_Result")


def limit_s(request: SessionRequest, sessions: int) -> float:
    """Return the seconds that so many sessions may take in all.

    One of them may need all the limits of a session; what it leaves of them is for the others.
    """
    return request.limit_s + (sessions - 1) * (request.budget_s + OVERTIME_S + _AROUND_S)


@dataclass
class TimeLimit:
    """The seconds that sessions may take in all.

    Attributes:
        limit_s: All of them.
        clock: Seconds.
    """

    limit_s: float
    clock: Clock = field(default_factory=MonotonicClock)
    _spent_s: float = 0.0
    _longest_s: float = 0.0

    def run(
        self,
        request: MeasureRequest,
        measure: Callable[[MeasureRequest], _Result],
        sessions: int = 1,
    ) -> _Result:
        """Measure within the time that is left.

        Args:
            request: What each session is asked for.
            measure: Runs the sessions, with what each is asked for and how long it may take.
            sessions: How many it runs.

        Raises:
            OutOfTimeError: There is less time left than the longest took, or it is over.
        """
        left_s = self.limit_s - self._spent_s
        if left_s < max(self._longest_s, 1.0):
            raise OutOfTimeError(
                f"no more sessions: {self._spent_s:.0f} of at most {self.limit_s:.0f} s are over"
            )
        started_s = self.clock()
        try:
            return measure(replace(request, time_left_s=left_s / sessions))
        finally:
            took_s = self.clock() - started_s
            self._spent_s += took_s
            self._longest_s = max(self._longest_s, took_s)


class LongPhases:
    """Says what a session waits for, where that takes long and nobody knows how long.

    Args:
        say: Tells the user.
        clock: Seconds.
    """

    def __init__(self, say: Callable[[str], None], clock: Clock | None = None) -> None:
        self._say = say
        self._clock = clock or MonotonicClock()
        self._doing = ""
        self._since_s = self._next_s = 0.0

    def __call__(self, progress: Progress) -> None:
        """Hear how far the session is."""
        now_s = self._clock()
        if progress.doing != self._doing:
            self._doing, self._since_s, self._next_s = progress.doing, now_s, _LONG_PHASE_S
        elif not progress.of_s and now_s - self._since_s >= self._next_s:
            self._next_s *= 2
            self._say(", ".join(one for one in (progress.doing, progress.detail) if one))
