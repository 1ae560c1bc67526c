"""Pauses of a loader that are too long for a step in flight to hide."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from statistics import fmean, pstdev

from netpipe.results.measurement import PAUSES, Finding
from netpipe.results.units import format_seconds

# Pauses matter if together they take at least this fraction of the step time.
_MIN_STALL_FRACTION = 0.05
# Pauses come at random if the coefficient of variation of their distances is above this.
_MIN_RANDOM_CV = 0.4
# Number of pauses in a cycle if they come at random.
_RANDOM_PAUSES = 4


@dataclass
class Pauses:
    """The waits for a batch that exceeded the usual time of a burst by at least a step.

    Attributes:
        batches: Number of batches watched.
        number: Number of pauses.
        excess_s: Sum of the seconds by which pauses exceeded a burst.
    """

    step_s: float
    batches: int = 0
    number: int = 0
    excess_s: float = 0.0
    _distances: list[int] = field(default_factory=list)

    def watch(self, waits_s: Sequence[float], burst_s: float) -> None:
        """Add the waits for successive batches; `burst_s` is the usual time of a burst."""
        at = [n for n, wait_s in enumerate(waits_s) if wait_s >= burst_s + self.step_s]
        self.batches += len(waits_s)
        self.number += len(at)
        self.excess_s += sum(waits_s[n] - burst_s for n in at)
        self._distances += [later - earlier for earlier, later in pairwise(at)]

    @property
    def matter(self) -> bool:
        """Whether training can lose a significant part of its time to pauses."""
        return self.excess_s >= _MIN_STALL_FRACTION * self.batches * self.step_s > 0

    @property
    def cycle(self) -> int:
        """Number of batches per pause, or per several random pauses; 1 if pauses do not matter."""
        if not self.matter:
            return 1
        if not self._distances:
            return ceil(self.batches / self.number)
        mean = fmean(self._distances)
        is_random = pstdev(self._distances) > _MIN_RANDOM_CV * mean
        return ceil(mean * (_RANDOM_PAUSES if is_random else 1))

    @property
    def mean_s(self) -> float:
        """Mean seconds by which a pause exceeds a burst; 0 without pauses."""
        return self.excess_s / self.number if self.number else 0.0

    def describe(self) -> Finding:
        """Return a finding that states the number of pauses and their mean length."""
        return Finding(
            PAUSES,
            f"{self.number} of {self.batches} batches came after a pause; a pause takes "
            f"{format_seconds(self.mean_s)} on average",
        )
