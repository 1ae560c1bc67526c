"""The gated metrics, each with its direction and its bound. Pure.

A change says how much worse a metric is now. It is the logarithm of a factor, or the difference of
two shares of the steps. A positive change is always worse, whatever the metric's direction.
"""

from dataclasses import dataclass
from math import exp, isinf, log, log1p
from typing import Final

from netpipe.results.measurement import Device, Interval, Measurement

# If other programs take more of the host's CPU time, times on the host say little about the code.
MAX_BUSY_FRACTION: Final = 0.1

# The default floor: the logarithm of 0 is not finite.
_SMALLEST_VALUE: Final = 1e-12

# The exponential of a larger change overflows.
_LARGEST_CHANGE: Final = 700.0

# Machines of one class differ in clocks, chips and neighbours.
_BOUND_ON_ANOTHER_MACHINE: Final = 0.10

# Steps on a CPU device take cores from the loader, which changes wall times by about this much.
_WALL_TIME_BOUND_ON_SHARED_CORES: Final = 0.30


@dataclass(frozen=True)
class Metric:
    """A value of a Measurement that is compared with the baseline.

    Attributes:
        name: The Measurement's field.
        unit: The unit of its values; "" for a ratio.
        bound: The smallest change that fails a run, as a fraction of the baseline; for a share, as
            a difference.
        duet_bound: The same for two versions that are timed side by side; None for `bound`.
        process_spread: The standard deviation of the change between duets of the same code, in
            addition to the spread of their slices.
        depends_on_host: Whether it is compared only within one class of host.
        is_host_time: Whether it is a wall time of work on the host, which other programs affect.
        neighbour_sensitivity: The change when other programs take all of the host's CPU time
            instead of none.
        is_share: Whether it is a share of the steps. A share may be 0, so differences are compared.
        is_judged_on_shared_cores: Whether it is judged on a device that shares its cores with the
            loader.
        floor: Smaller values are treated as this value.
        is_sure_only: Whether the low end of its interval is compared instead of the median.
    """

    name: str
    unit: str
    lower_is_better: bool
    bound: float
    duet_bound: float | None = None
    process_spread: float = 0.02
    depends_on_host: bool = True
    is_host_time: bool = False
    neighbour_sensitivity: float = 0.0
    is_share: bool = False
    is_judged_on_shared_cores: bool = True
    floor: float = _SMALLEST_VALUE
    is_sure_only: bool = False

    @property
    def is_step_time(self) -> bool:
        """Whether it is a wall time of steps, which other work on shared cores affects most."""
        return self.unit == "s" and not self.is_host_time

    def is_judged_on(self, device: Device) -> bool:
        """Return whether the metric is compared with earlier sessions on a device."""
        # On shared cores, other work changes a step time by more than any useful bound.
        is_moved = self.is_step_time or not self.is_judged_on_shared_cores
        return not (device.shares_host_cores and is_moved)

    def is_in(self, measurement: Measurement) -> bool:
        """Return whether a session has the metric; old or very short sessions may lack it."""
        found = getattr(measurement, self.name)
        return found is not None and not (self.is_sure_only and isinf(found.low))

    def value(self, measurement: Measurement) -> float:
        """Return the metric's value in a session, in its unit; 0 if it has none."""
        found: Interval | float | None = getattr(measurement, self.name)
        if isinstance(found, Interval):
            return max(found.low, 0.0) if self.is_sure_only else found.median
        return found or 0.0

    def level(self, measurement: Measurement) -> float:
        """Return a session's value as a level; the difference of two levels is a change."""
        return self.to_level(self.value(measurement))

    def to_level(self, value: float) -> float:
        """Convert a value to a level."""
        level = value if self.is_share else log(max(value, self.floor))
        return level if self.lower_is_better else -level

    def to_factor(self, change: float) -> float:
        """Convert a change to a factor; for a share, return the difference itself."""
        return change if self.is_share else exp(min(change, _LARGEST_CHANGE))

    def to_factors(self, change: Interval) -> Interval:
        """Convert an interval of changes as `to_factor` does."""
        middle, low, high = map(self.to_factor, (change.median, change.low, change.high))
        return Interval(middle, low, high, change.n)

    def format_change(self, change: float) -> str:
        """Format a change in the metric's own direction: a factor, or a difference of shares."""
        signed = change if self.lower_is_better else -change
        return f"{signed:+.2f}" if self.is_share else f"{self.to_factor(signed):.2f}"

    def bound_change(
        self, *, shared_cores: bool, same_machine: bool, min_bound: float = 0.0
    ) -> float:
        """Return the smallest change that fails a run.

        `shared_cores` says whether the device shares its cores with the loader. `same_machine` says
        whether the baseline comes from this machine, not just from one of the same class. The
        metric's bound counts as at least `min_bound`, a fraction.
        """
        bound = max(self.bound, min_bound)
        if self.depends_on_host and not same_machine:
            bound = max(bound, _BOUND_ON_ANOTHER_MACHINE)
        if shared_cores and self.unit == "s":
            bound = max(bound, _WALL_TIME_BOUND_ON_SHARED_CORES)
        return bound if self.is_share else log1p(bound)

    @property
    def duet_bound_change(self) -> float:
        """The smallest change that fails when two versions are timed side by side."""
        bound = self.bound if self.duet_bound is None else self.duet_bound
        return bound if self.is_share else log1p(bound)


# The spreads of loading were measured in duets on two shared cores (perf_tests/studies/gate_power).
# Steps on a separate device are assumed to spread like the wall time of loading; starts and memory
# are assumed to spread more widely.
# load_cpu_ratio rose by 2% to 7% when other programs took half of a quiet machine's CPU time.
LOAD_CPU: Final = Metric(
    "load_cpu_ratio",
    "",
    lower_is_better=True,
    bound=0.03,
    process_spread=0.008,
    neighbour_sensitivity=0.15,
)
LOAD: Final = Metric(
    "load_s_per_batch", "s", lower_is_better=True, bound=0.10, duet_bound=0.05, is_host_time=True
)
START: Final = Metric(
    "first_batch_s", "s", lower_is_better=True, bound=0.50, process_spread=0.15, is_host_time=True,
    floor=1.0,
)  # fmt: skip
PEAK_MEMORY: Final = Metric(
    "peak_pss_bytes", "bytes", lower_is_better=True, bound=0.20, process_spread=0.05
)
GROWTH: Final = Metric(
    "growth_bytes_per_batch", "bytes", lower_is_better=True, bound=1.0, process_spread=0.2,
    floor=100e3, is_sure_only=True,
)  # fmt: skip
STEP: Final = Metric("step_s", "s", lower_is_better=True, bound=0.05)
TRAIN: Final = Metric("train_s_per_step", "s", lower_is_better=True, bound=0.05)
UTILISATION: Final = Metric(
    "accelerator_utilisation", "", lower_is_better=False, bound=0.05, depends_on_host=False,
    is_judged_on_shared_cores=False,
)  # fmt: skip
SYNCS: Final = Metric(
    "sync_probe_fraction", "of the steps", lower_is_better=True, bound=0.25,
    depends_on_host=False, is_share=True,
)  # fmt: skip

ONCE: Final = (START, PEAK_MEMORY, GROWTH)
"""The metrics with one value per session, and so one per side of a duet instead of per slice."""

GATED: Final = {
    "load_s_per_batch": (LOAD_CPU, LOAD, *ONCE),
    "step_s": (STEP,),
    "train_s_per_step": (UTILISATION, SYNCS, TRAIN),
}
"""The metrics that decide the outcome of each quantity, the most significant first."""

METRICS: Final = {metric.name: metric for metrics in GATED.values() for metric in metrics}
"""Every gated metric, by name."""


def format_worse_ratio(name: str, worse_ratio: float | None) -> str:
    """Format a change in the direction of its metric or kind of work; "" if it is unknown.

    It is a factor such as `0.85 x`, or for a share a difference such as `+0.50`.
    """
    metric = METRICS.get(name)  # None for a kind of work
    if worse_ratio is None:
        return ""
    if metric is not None and metric.is_share:
        return metric.format_change(worse_ratio - 1)
    if metric is None or worse_ratio <= 0:  # A document may hold any number.
        return f"{worse_ratio:.2f} x"
    return f"{metric.format_change(log(worse_ratio))} x"
