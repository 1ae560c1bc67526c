"""The figures that are held against a baseline: each with its direction and what it may move. Pure.

A change is how much worse a figure is now: the logarithm of a factor, or for a share of the steps a
difference. Above 0 is worse, whatever the figure's direction.
"""

from dataclasses import dataclass
from enum import StrEnum
from math import exp, log, log1p
from typing import Final

from netpipe.results.measurement import Interval, Measurement

_LEAST_FIGURE: Final = 1e-12  # of what is taken a logarithm
_ANOTHER_MACHINE: Final = 0.10  # of one class differ: by their clocks, chips and neighbours
_WALL_ON_SHARED_CORES: Final = 0.30  # loading beside a CPU device's steps moves so by their cores


class Scope(StrEnum):
    """Where two values of a figure can be compared."""

    EVERYWHERE = "everywhere"
    HOST = "the same class of host"


@dataclass(frozen=True)
class Metric:
    """A figure that is held against the baseline.

    Attributes:
        name: The Measurement's field.
        unit: Of its values; "" for a ratio.
        lower_is_better: Its direction.
        least: The smallest change worth failing a run for, as a fraction of the baseline; for a
            share, as a difference.
        scope: Where it can be compared.
        of_host: What else the host does moves it, as it does every wall time of a host's work.
        of_neighbours: By how much it moves, as a change, when others take all of the host's CPU
            time instead of none.
        is_share: It is a share of the steps, which may be 0: differences count, not factors.
        on_shared_cores: It says something where the device shares its cores with the loader.
    """

    name: str
    unit: str
    lower_is_better: bool
    least: float
    scope: Scope = Scope.HOST
    of_host: bool = False
    of_neighbours: float = 0.0
    is_share: bool = False
    on_shared_cores: bool = True

    @property
    def is_step_time(self) -> bool:
        """Whether it is a wall time of steps, which the host moves only where they share cores."""
        return self.unit == "s" and not self.of_host

    def value(self, measurement: Measurement) -> float:
        """Return the figure's value in a session, in its unit."""
        found: Interval | float = getattr(measurement, self.name)
        return found.median if isinstance(found, Interval) else found

    def level(self, measurement: Measurement) -> float:
        """Return where the figure stands, so that a difference of two levels is a change."""
        value = self.value(measurement)
        upward = value if self.is_share else log(max(value, _LEAST_FIGURE))
        return upward if self.lower_is_better else -upward

    def worse(self, change: float) -> float:
        """Return a change as people read it: a factor, or for a share the difference itself."""
        return change if self.is_share else exp(change)

    def worse_interval(self, change: Interval) -> Interval:
        """Return an interval of changes as `worse` does."""
        return Interval(
            median=self.worse(change.median),
            low=self.worse(change.low),
            high=self.worse(change.high),
            n=change.n,
        )

    def shown(self, change: float) -> str:
        """Write what a change makes of the figure: a factor, or for a share what is added."""
        if self.is_share:
            return f"{change if self.lower_is_better else -change:+.2f}"
        return f"{exp(change if self.lower_is_better else -change):.2f}"

    def least_change(self, *, shared_cores: bool, same_machine: bool) -> float:
        """Return the smallest change worth failing a run for.

        Args:
            shared_cores: The device shares its cores with the loader.
            same_machine: It is the very machine of the baseline, and not one of its class.
        """
        if self.is_share:
            return self.least
        least = self.least
        if self.scope is Scope.HOST and not same_machine:
            least = max(least, _ANOTHER_MACHINE)
        if shared_cores and self.unit == "s":
            least = max(least, _WALL_ON_SHARED_CORES)
        return log1p(least)


# Between a quiet machine and one of whose CPU time others took half, the ratio moved by 2 to 7%.
LOAD_CPU: Final = Metric("load_cpu_ratio", "", lower_is_better=True, least=0.03, of_neighbours=0.15)
LOAD: Final = Metric("load_s_per_batch", "s", lower_is_better=True, least=0.10, of_host=True)
STEP: Final = Metric("step_s", "s", lower_is_better=True, least=0.05)
TRAIN: Final = Metric("train_s_per_step", "s", lower_is_better=True, least=0.05)
UTILISATION: Final = Metric(
    "accelerator_utilisation",
    "",
    lower_is_better=False,
    least=0.05,
    scope=Scope.EVERYWHERE,
    on_shared_cores=False,
)
SYNCS: Final = Metric(
    "sync_probe_fraction",
    "of the steps",
    lower_is_better=True,
    least=0.25,
    scope=Scope.EVERYWHERE,
    is_share=True,
)

GATED: Final = {
    "load_s_per_batch": (LOAD_CPU, LOAD),
    "step_s": (STEP,),
    "train_s_per_step": (UTILISATION, SYNCS, TRAIN),
}
"""The metrics that decide on each quantity, the most telling first."""
