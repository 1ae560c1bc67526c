"""The events that a measurement reports to its watchdog."""

from collections.abc import Sequence
from typing import Final


class Watch:
    """Receives the events of a measurement and ignores them; a watchdog acts on them."""

    def note_wait(self, since_s: float | None, *, starts: bool = False) -> None:
        """Note that this thread has waited for a batch since `since_s`; None ends the wait.

        If the loader `starts`, the start limit applies, otherwise the batch limit.
        """

    def note_workers(self, worker_pids: Sequence[int]) -> None:
        """Note the loader's worker processes."""

    def begin_rounds(self, budget_s: float = 0.0) -> None:
        """Note the end of the start-up; each call restarts the limit, by a longer budget."""

    def enter_phase(self, phase: str, of_s: float = 0.0, detail: str = "") -> None:
        """Note the phase that begins, to show it to the user; not called inside a timed window.

        `of_s` is the length of the whole session, counted from the first call that knows it; 0 if
        it is not known yet.
        """


UNWATCHED: Final = Watch()
