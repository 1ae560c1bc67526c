"""The rounds of a measurement so far, and its other findings."""

from dataclasses import dataclass, field
from statistics import median

from netpipe.measuring.loader_puller import PulledBatches
from netpipe.measuring.training_loop import TrainBlock
from netpipe.results import statistics
from netpipe.results.measurement import BlockingLine, CalibrationTurns, GpuHealth, Rounds

# With fewer rounds an interval is wide.
MIN_ROUNDS = 6
# Half-widths of the intervals of L and R/S0, as fractions, below which no more are needed.
_TIGHT_LOAD = 0.03
_TIGHT_TRAIN = 0.02
# Share of a step from which a stall is looked at more closely.
_MIN_STALL = 0.05


@dataclass(frozen=True)
class StepBlocks:
    """One round's S0, S_sync, S2, S1 (None where the step cannot run in a thread) and H."""

    step_s: float
    synced_s: float
    transfer_s: float
    shadow_s: float | None
    host_s: float
    compilations: int


@dataclass(frozen=True)
class LoadingBlocks:
    """What the blocks of a round measured in which the loader sets the pace.

    Attributes:
        drained: Whether the buffers were drained before the loader was timed alone.
        buffered: Batches that the buffers held before that.
        pulled: The loader alone.
        trained_drained: Whether real steps began with empty buffers, not with full ones.
        train: Real steps.
    """

    drained: bool
    buffered: float
    pulled: PulledBatches
    trained_drained: bool
    train: TrainBlock


@dataclass(frozen=True)
class Round:
    """One whole round; `step_first` says which blocks came first."""

    step: StepBlocks
    load: LoadingBlocks
    step_first: bool


@dataclass
class RoundLog:
    """The whole rounds, and the findings beside them."""

    rounds: list[Round] = field(default_factory=list)
    turns: list[CalibrationTurns] = field(default_factory=list)
    blocking_lines: tuple[BlockingLine, ...] = ()
    load_overlap_fraction: float | None = None
    gpu: GpuHealth | None = None
    overhead_s: float = 0.0
    ended: str = ""
    within_epochs: bool = True
    trace: str = ""
    no_trace: str = ""

    @property
    def loads(self) -> list[LoadingBlocks]:
        """The loading blocks of each round."""
        return [entry.load for entry in self.rounds]

    @property
    def train_blocks(self) -> list[TrainBlock]:
        """The real steps of each round."""
        return [load.train for load in self.loads]

    @property
    def steps_s(self) -> list[float]:
        """Seconds of every real step."""
        return [step_s for train in self.train_blocks for step_s in train.steps_s]

    @property
    def waits_s(self) -> list[float]:
        """Seconds that every real step waited for its batch."""
        return [wait_s for train in self.train_blocks for wait_s in train.waits_s]

    @property
    def buffered(self) -> list[float]:
        """Batches that each drain found in the buffers."""
        return [load.buffered for load in self.loads]

    def buffered_after(self, *, train: bool) -> list[float]:
        """Return the batches that drains found: left by real steps, or in full buffers."""
        return [entry.load.buffered for entry in self.rounds if entry.step_first is not train]

    @property
    def probe_fraction(self) -> float:
        """Share of the requests for a batch at which the step before was done."""
        trains = self.train_blocks
        return sum(train.ready for train in trains) / max(1, sum(train.asked for train in trains))

    @property
    def mostly_drained(self) -> bool:
        """Whether the buffers were drained before most of the load blocks."""
        return 2 * sum(load.drained for load in self.loads) > len(self.loads)

    @property
    def stalls(self) -> bool:
        """Whether a real step takes longer than loading and computing explain."""
        columns = self.columns()
        larger_s = max(median(columns.load_s_per_batch), median(columns.step_s))
        return median(columns.train_s_per_step) > (1 + _MIN_STALL) * larger_s

    def is_tight(self) -> bool:
        """Return whether the intervals are so narrow that no more rounds are needed."""
        if len(self.rounds) < MIN_ROUNDS:
            return False
        columns = self.columns()
        load = statistics.median_interval(columns.load_s_per_batch)
        ratio = statistics.ratio_interval(columns.train_s_per_step, columns.step_s)
        return (
            statistics.half_width_fraction(load) < _TIGHT_LOAD
            and statistics.half_width_fraction(ratio) < _TIGHT_TRAIN
        )

    def columns(self) -> Rounds:
        """Return the raw values as one series per quantity."""
        steps, loads, trains = [entry.step for entry in self.rounds], self.loads, self.train_blocks
        return Rounds(
            load_s_per_batch=tuple(load.pulled.s_per_batch for load in loads),
            load_cpu_s_per_batch=tuple(load.pulled.cpu_s_per_batch for load in loads),
            step_s=tuple(step.step_s for step in steps),
            step_synced_s=tuple(step.synced_s for step in steps),
            step_shadow_s=tuple(step.shadow_s for step in steps if step.shadow_s is not None),
            step_transfer_s=tuple(step.transfer_s for step in steps),
            train_s_per_step=tuple(train.s_per_step for train in trains),
            host_s_per_step=tuple(step.host_s for step in steps),
            compilations=tuple(
                step.compilations + train.compilations
                for step, train in zip(steps, trains, strict=True)
            ),
            exposed_s_per_step=tuple(train.exposed_s_per_step for train in trains),
        )
