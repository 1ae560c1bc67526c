"""Being watched: what a measurement tells whoever ends it when it hangs."""

from collections.abc import Sequence
from typing import Final, Protocol


class Watch(Protocol):
    """Whoever makes sure that a measurement ends, and tells a person how far it is."""

    def waiting(self, since_s: float | None, *, starts: bool = False) -> None:
        """Hear that this thread asks for a batch, or that it got one.

        Args:
            since_s: The moment it was asked for; None when it has come, or never will.
            starts: Whether the loader starts for it, which may take longer.
        """
        ...

    def started(self, worker_pids: Sequence[int]) -> None:
        """Hear which processes load from now on."""
        ...

    def rounds_begin(self) -> None:
        """Hear that the start-up is over: from now on the budget counts, again if need be."""
        ...

    def doing(self, what: str, of_s: float = 0.0, detail: str = "") -> None:
        """Hear what is done from now on; never told inside a timed window.

        Args:
            what: In words, for whoever waits: a phase, of which there are few.
            of_s: Seconds that all takes, counted from the first time that they are given; 0: that
                is not known yet.
            detail: Where in that phase it is.
        """
        ...


class _Unwatched:
    """Nobody: the measurement takes the time it takes."""

    def waiting(self, since_s: float | None, *, starts: bool = False) -> None:
        """Do nothing."""

    def started(self, worker_pids: Sequence[int]) -> None:
        """Do nothing."""

    def rounds_begin(self) -> None:
        """Do nothing."""

    def doing(self, what: str, of_s: float = 0.0, detail: str = "") -> None:
        """Do nothing."""


UNWATCHED: Final[Watch] = _Unwatched()
