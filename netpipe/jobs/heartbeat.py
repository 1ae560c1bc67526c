"""The calls by which a measurement tells its watchdog that it is alive."""

from collections.abc import Sequence
from typing import Final


class Watch:
    """Receives the events of a measurement. This one ignores them; a watchdog acts on them."""

    def note_wait(self, since_s: float | None, *, starts: bool = False) -> None:
        """Note that this thread asked for a batch at `since_s`; None: it has come, or never will.

        It may take longer if the loader `starts` for it.
        """

    def note_workers(self, worker_pids: Sequence[int]) -> None:
        """Note the processes that load from now on."""

    def begin_rounds(self) -> None:
        """Note that the start-up is over: the budget counts from now on, again if called again."""

    def enter_phase(self, phase: str, of_s: float = 0.0, detail: str = "") -> None:
        """Note what is done from now on, for the user; never called inside a timed window.

        The whole session takes `of_s` seconds, counted from the first call that gives them; 0: not
        known yet.
        """


UNWATCHED: Final = Watch()
