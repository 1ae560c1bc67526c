"""How often a loader pauses for longer than a step in flight hides. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import ceil
from statistics import fmean, pstdev

from netpipe.results.measurement import PAUSES, Finding
from netpipe.results.units import format_seconds

# Fraction of the step time that all pauses together must take to matter.
_MIN_STALL_FRACTION = 0.05
# Coefficient of variation of the distances between pauses from which they come at random.
_MIN_RANDOM_CV = 0.4
# Pauses in a cycle of a loader that pauses at random.
_RANDOM_PAUSES = 4


@dataclass
class Pauses:
    """The waits for a batch that were at least a step longer than a burst of batches takes.

    Attributes:
        batches: Batches that were watched.
        number: Pauses among them.
        excess_s: Seconds by which all pauses together were longer than a burst.
    """

    step_s: float
    batches: int = 0
    number: int = 0
    excess_s: float = 0.0
    _distances: list[int] = field(default_factory=list)

    def watch(self, waits_s: Sequence[float], burst_s: float) -> None:
        """Add the waits for successive batches; `burst_s` is the usual time of a burst of them."""
        at = [n for n, wait_s in enumerate(waits_s) if wait_s >= burst_s + self.step_s]
        self.batches += len(waits_s)
        self.number += len(at)
        self.excess_s += sum(waits_s[n] - burst_s for n in at)
        self._distances += [later - earlier for earlier, later in pairwise(at)]

    @property
    def matter(self) -> bool:
        """Whether training can lose a relevant part of its time to pauses."""
        return self.excess_s >= _MIN_STALL_FRACTION * self.batches * self.step_s > 0

    @property
    def cycle(self) -> int:
        """Batches that hold a pause, or several random ones; 1 if pauses do not matter."""
        if not self.matter:
            return 1
        distances = self._distances
        if not distances:
            return ceil(self.batches / self.number)
        mean = fmean(distances)
        is_random = pstdev(distances) > _MIN_RANDOM_CV * mean
        return ceil(mean * (_RANDOM_PAUSES if is_random else 1))

    @property
    def mean_s(self) -> float:
        """Seconds of a pause in the mean."""
        return self.excess_s / self.number if self.number else 0.0

    def describe(self) -> Finding:
        """Return the finding of how many there were, and how long."""
        return Finding(
            PAUSES,
            f"{self.number} of {self.batches} batches came after a pause; a pause takes "
            f"{format_seconds(self.mean_s)} on average",
        )
