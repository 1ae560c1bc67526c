"""Numbers of workers to choose among, and what becomes of each. Plain data."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

from netpipe.throughput.figures import Tally, over_rounds

Fate = Literal["open", "chosen", "not needed", "slower", "over budget", "failed"]

AS_FAST: Final = 0.95
"""The part of another's tokens per second from which on a candidate counts as fast as it."""


@dataclass(frozen=True)
class Candidate:
    """A number of workers, and what is known of it.

    Attributes:
        workers: How many.
        finished_bytes: About what its finished batches take while they wait.
        runs: What its trials counted, in the order of the rounds.
        fate: What became of it; "open" while it can still be chosen.
        reason: Why; empty while it is open.
    """

    workers: int
    finished_bytes: int
    runs: tuple[Tally, ...] = ()
    fate: Fate = "open"
    reason: str = ""

    @property
    def tokens_per_s(self) -> float:
        """The median over its runs, of which there must be one."""
        return over_rounds("tokens_per_s", self.runs).median

    @property
    def peak_pss_bytes(self) -> int:
        """The most memory of all its processes in any run; 0 without a run."""
        return max((run.peak_pss_bytes for run in self.runs), default=0)


def still_open(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return those that can still be chosen."""
    return [one for one in candidates if one.fate == "open"]


def worker_counts(cores: int) -> list[int]:
    """Return the numbers of workers worth a trial: the powers of two, and the cores.

    Not 0: the process that trains would load, and nothing here sees what it has to do beside that.
    """
    powers = (1 << exponent for exponent in range(cores.bit_length()))
    return sorted({*powers, cores})
