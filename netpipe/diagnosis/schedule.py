"""How long a diagnosis may take, and when each part of it must be over."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from netpipe.clock import Clock
from netpipe.errors import SessionError
from netpipe.session.heartbeat import Watch

NO_TIME: Final = "no time was left"
"""Why a part was left out."""

_EXTRA_S: Final = 20.0


def longest_s(budget_s: float) -> float:
    """Return the seconds after which a diagnosis is over, from the loader's first batches on.

    Starting workers and the least rounds take as long as they take, on a slow machine too.
    """
    return 2 * budget_s + _EXTRA_S


@dataclass(frozen=True)
class TimeSlot:
    """How long a part of a diagnosis may take.

    Attributes:
        clock: Seconds.
        budget_s: Seconds that it is meant to take.
        until_s: When it must be over, on the clock.
    """

    clock: Clock
    budget_s: float
    until_s: float

    def remaining_s(self) -> float:
        """Return the seconds until it must be over, not below 0."""
        return max(0.0, self.until_s - self.clock())

    def require(self, cost_s: float) -> None:
        """Refuse a part that would take longer than that.

        Raises:
            SessionError: It would; the message is `NO_TIME`.
        """
        if cost_s > self.remaining_s():
            raise SessionError(NO_TIME)


class Schedule:
    """Gives each part of a diagnosis its time; the diagnosis begins when it is made.

    Args:
        clock: Seconds.
        budget_s: Seconds that all parts are meant to take.
        watch: Told of what is done.
    """

    def __init__(self, clock: Clock, budget_s: float, watch: Watch) -> None:
        self.clock = clock
        self._budget_s = budget_s
        self._watch = watch
        self._begun_s = clock()

    def part(self, share: float, until: float = 1.0) -> TimeSlot:
        """Return the time of a part.

        Args:
            share: Of the budget.
            until: Of the longest time, when the part must be over.
        """
        until_s = self._begun_s + until * longest_s(self._budget_s)
        return TimeSlot(self.clock, share * self._budget_s, until_s)

    def say(self, what: str) -> Callable[[int], None]:
        """Return what tells the number of each round of a part."""
        return lambda number: self._watch.enter_phase(what, self._budget_s, f"round {number}")
