"""What the rounds of a measurement have shown so far."""

from dataclasses import dataclass, field
from statistics import median

from netpipe.measuring.training_loop import TrainBlock
from netpipe.results import statistics
from netpipe.results.measurement import BlockingLine, CalibrationTurns, GpuHealth

MIN_ROUNDS = 6  # below, an interval is wide
_TIGHT_LOAD = 0.03  # half-widths at which more rounds tell nothing more
_TIGHT_TRAIN = 0.02
_STALL = 0.05  # of a step, before it is looked at more closely


@dataclass
class RoundLog:
    """Series with an entry for each round, and what was found out beside them."""

    load_s: list[float] = field(default_factory=list)
    typical_load_s: list[float] = field(default_factory=list)
    load_cpu_s: list[float] = field(default_factory=list)
    gaps_s: list[tuple[float, ...]] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    synced_s: list[float] = field(default_factory=list)
    shadow_s: list[float] = field(default_factory=list)
    transfer_s: list[float] = field(default_factory=list)
    host_s: list[float] = field(default_factory=list)
    train: list[TrainBlock] = field(default_factory=list)
    turns: list[CalibrationTurns] = field(default_factory=list)
    lent_when_full: list[float] = field(default_factory=list)
    lent_after_train: list[float] = field(default_factory=list)
    drained: list[bool] = field(default_factory=list)
    trained_drained: list[bool] = field(default_factory=list)
    blocking_lines: tuple[BlockingLine, ...] = ()
    load_overlap_fraction: float | None = None
    gpu: GpuHealth | None = None
    compilations: list[int] = field(default_factory=list)
    overhead_s: float = 0.0
    ended: str = ""
    within_epochs: bool = True
    trace: str = ""
    no_trace: str = ""

    def keep(self, rounds: int) -> None:
        """Forget what a round that was not finished has measured."""
        for series in (
            self.load_s, self.typical_load_s, self.load_cpu_s, self.gaps_s, self.step_s,
            self.synced_s, self.shadow_s, self.transfer_s, self.host_s, self.train,
            self.drained, self.trained_drained, self.compilations,
        ):  # fmt: skip
            del series[rounds:]

    @property
    def train_s(self) -> list[float]:
        """Seconds of one real step, one entry a round."""
        return [block.s_per_step for block in self.train]

    @property
    def lent(self) -> list[float]:
        """Batches that the buffers had lent when they were drained."""
        return self.lent_when_full + self.lent_after_train

    @property
    def stalls(self) -> bool:
        """Whether a real step takes longer than loading and computing explain."""
        larger_s = max(median(self.load_s), median(self.step_s))
        return median(self.train_s) > (1 + _STALL) * larger_s

    @property
    def probe_fraction(self) -> float:
        """Share of the requests for a batch at which the step before was done."""
        return sum(one.ready for one in self.train) / max(1, sum(one.asked for one in self.train))

    @property
    def mostly_drained(self) -> bool:
        """Whether the buffers were drained before most of the load blocks."""
        return 2 * sum(self.drained) > len(self.drained)

    def is_tight(self) -> bool:
        """Return whether more rounds would tell nothing more."""
        if len(self.load_s) < MIN_ROUNDS:
            return False
        load = statistics.median_interval(self.load_s)
        ratio = statistics.ratio_interval(self.train_s, self.step_s)
        return (
            statistics.half_width_fraction(load) < _TIGHT_LOAD
            and statistics.half_width_fraction(ratio) < _TIGHT_TRAIN
        )
