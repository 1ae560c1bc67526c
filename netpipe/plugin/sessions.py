"""The sessions of a run: functions that start them, time limits and progress messages."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from netpipe.clock import Clock
from netpipe.device.detection import find_device
from netpipe.duets.parent import run_duet
from netpipe.errors import OutOfTimeError
from netpipe.gate.duets import Duet
from netpipe.jobs import parent
from netpipe.jobs.progress import Progress
from netpipe.jobs.request import OVERTIME_S, SessionRequest
from netpipe.results.measurement import Device, Measurement
from netpipe.results.units import format_minutes, format_seconds
from netpipe.results.work_profile import WorkProfile
from netpipe.resuming.checking import ResumeReport, check_resume
from netpipe.work_counts.reproducible_counts import count_work

# Allowed for imports, loader start and step compilation in each session after the first.
_START_UP_S: Final = 60.0

_FIRST_MESSAGE_AFTER_S: Final = 15.0

_Request = TypeVar("_Request", bound=SessionRequest)
_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Jobs:
    """The functions that start processes."""

    measure: Callable[..., Measurement] = parent.run_measurement
    lint: Callable[..., dict[str, Any]] = parent.run_session
    check_resume: Callable[..., ResumeReport] = check_resume
    count_work: Callable[..., WorkProfile] = count_work
    run_duet: Callable[..., Duet] = run_duet
    find_device: Callable[[], Device] = find_device


def limit_s(request: SessionRequest, sessions: int) -> float:
    """Return the seconds that `sessions` sessions may take together.

    One session may use all of its limits in full; each other one adds its rounds and start-up.
    """
    return request.limit_s + (sessions - 1) * (request.budget_s + OVERTIME_S + _START_UP_S)


@dataclass
class TimeLimit:
    """A limit on the total time of several sessions."""

    limit_s: float
    clock: Clock = field(default_factory=Clock)
    _spent_s: float = 0.0
    _longest_s: float = 0.0

    @property
    def remark(self) -> str:
        """The time left, once half of the limit is used up; "" before that."""
        left_s = self.limit_s - self._spent_s
        return f"; at most {format_seconds(left_s)} are left" if 2 * left_s <= self.limit_s else ""

    def run(self, request: _Request, measure: Callable[[_Request], _Result]) -> _Result:
        """Run one or more sessions: call `measure` with the request limited to the time left.

        Raises:
            OutOfTimeError: Less time is left than the longest call took, or less than 1 s.
        """
        left_s = self.limit_s - self._spent_s
        if left_s < max(self._longest_s, 1.0):
            raise OutOfTimeError(
                f"no more sessions: {self._spent_s:.0f} of at most {self.limit_s:.0f} s are used up"
            )
        started_s = self.clock()
        try:
            return measure(replace(request, time_left_s=left_s))
        finally:
            took_s = self.clock() - started_s
            self._spent_s += took_s
            self._longest_s = max(self._longest_s, took_s)


class LongPhases:
    """Reports a phase of unknown length in a session, if it takes long, and times every phase.

    `draw` shows the phase and the time left in a line of its own, which the next call replaces.
    """

    def __init__(
        self,
        report: Callable[[str], None],
        draw: Callable[[str], None],
        clock: Clock | None = None,
    ) -> None:
        self._report = report
        self._draw = draw
        self._clock = clock or Clock()
        self._doing = ""
        self._since_s = self._next_s = self._called_s = 0.0
        self._phases_s = defaultdict[str, float](float)

    def __call__(self, progress: Progress) -> None:
        """Handle a progress report of the session."""
        now_s = self._clock()
        if self._doing:
            self._phases_s[self._doing] += now_s - self._called_s
        self._called_s = now_s
        left_s = progress.of_s - progress.done_s
        left = f", {format_minutes(left_s)} left" if left_s > 0 else ""
        self._draw(f"{progress.description}{left}")
        if progress.doing != self._doing:
            self._doing, self._since_s, self._next_s = progress.doing, now_s, _FIRST_MESSAGE_AFTER_S
        elif not progress.of_s and now_s - self._since_s >= self._next_s:
            self._next_s *= 2
            self._report(progress.description)

    def describe(self) -> str:
        """End the last phase, and return the time of every phase."""
        self(Progress(""))
        return ", ".join(f"{name} {format_seconds(s)}" for name, s in self._phases_s.items())
