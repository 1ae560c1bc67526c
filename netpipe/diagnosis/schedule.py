"""How long a diagnosis may take, and when each part of it must end."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from netpipe.clock import Clock
from netpipe.errors import SessionError
from netpipe.session.heartbeat import Watch

NO_TIME: Final = "no time was left"
"""The reason given for a part that was left out."""

_EXTRA_S: Final = 20.0


def max_duration_s(budget_s: float) -> float:
    """Return the seconds from the loader's first batches until a diagnosis must end.

    It exceeds the budget, because starting workers and the minimum number of rounds take as long
    as they need, even when the budget is spent.
    """
    return 2 * budget_s + _EXTRA_S


@dataclass(frozen=True)
class TimeSlot:
    """The time that a part of a diagnosis may take.

    Attributes:
        clock: Seconds.
        budget_s: Seconds that the part should take.
        until_s: The time on the clock by which it must end.
    """

    clock: Clock
    budget_s: float
    until_s: float

    def remaining_s(self) -> float:
        """Return the seconds until the part must end, at least 0."""
        return max(0.0, self.until_s - self.clock())

    def require(self, cost_s: float) -> None:
        """Refuse a part that would take longer than the remaining time.

        Raises:
            SessionError: The part would take longer; the message is `NO_TIME`.
        """
        if cost_s > self.remaining_s():
            raise SessionError(NO_TIME)


class Schedule:
    """Gives each part of a diagnosis its time slot, counted from the creation of the schedule."""

    def __init__(self, clock: Clock, budget_s: float, watch: Watch) -> None:
        self._clock = clock
        self._budget_s = budget_s
        self._watch = watch
        self._started_s = clock()

    def slot(self, budget_fraction: float, end_fraction: float = 1.0) -> TimeSlot:
        """Return a part's time slot.

        Args:
            budget_fraction: The part's share of the budget.
            end_fraction: When the part must end, as a fraction of `max_duration_s`.
        """
        until_s = self._started_s + end_fraction * max_duration_s(self._budget_s)
        return TimeSlot(self._clock, budget_fraction * self._budget_s, until_s)

    def progress(self, what: str) -> Callable[[int], None]:
        """Return a function that reports the number of each round of a part."""
        return lambda number: self._watch.enter_phase(what, self._budget_s, f"round {number}")
