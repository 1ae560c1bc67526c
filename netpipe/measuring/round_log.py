"""The rounds of a measurement so far, and the sizes of the blocks in the next round."""

from dataclasses import dataclass, field, replace
from math import ceil
from statistics import median

from netpipe.measuring.loader_puller import MAX_BURST_S, PulledBatches
from netpipe.measuring.pauses import Pauses
from netpipe.measuring.training.training_loop import BlockLength, TrainBlock
from netpipe.results import statistics
from netpipe.results.measurement import BlockingLine, CalibrationTurns, GpuHealth, Rounds

# With fewer rounds, intervals are wide.
MIN_ROUNDS = 6
# The rounds end if the intervals of L and R/S0 have half-widths below these fractions.
_TIGHT_LOAD = 0.03
_TIGHT_TRAIN = 0.02
# Smallest stall worth a closer look, as a fraction of the larger of L and S0.
_MIN_STALL = 0.05
# Assumed seconds per batch of a loader that takes no measurable time.
MIN_LOAD_S = 1e-9
_MAX_SKIPPED_STEPS = 5
_TRAIN_FRACTION = 0.35
# With this many steps in each of MIN_ROUNDS rounds, a pause every 28 steps occurs three times.
_TELLING_STEPS = 14
_MAX_STUTTER = 3.0
_MAX_TRAIN_STUTTER = 2.0
# A block of real steps ends after this multiple of its expected time, whatever the loop does.
_TRAIN_LIMIT_RATIO = 2.0
# A whole cycle of real steps may take as long as this many rounds.
_MAX_CYCLE_ROUNDS = 4


@dataclass(frozen=True)
class Estimates:
    """Estimates that determine the sizes of the next blocks.

    Attributes:
        typical_load_s: Time of a batch while loading does not stutter.
        transfer_s: Time of a step, including the copy of its batch to the device.
        train_s: Time of a real step.
        burst: Batches that arrive together.
        cycle: Batches from one pause of the loader to the next; 1 if it does not pause.
    """

    load_s: float
    typical_load_s: float
    step_s: float
    transfer_s: float
    train_s: float
    burst: int = 1
    cycle: int = 1

    def with_pauses(self, pauses: Pauses) -> "Estimates":
        """Return the estimates with all pauses so far included in the load time."""
        if pauses.cycle == 1:
            return self
        load_s = self.typical_load_s + pauses.excess_s / pauses.batches
        return replace(self, load_s=load_s, cycle=pauses.cycle)


@dataclass(frozen=True)
class BlockSizes:
    """The size of each block of a round.

    Attributes:
        load_s: Seconds of loading alone if `load_batches` is 0.
        load_batches: Batches to load alone: whole cycles if the loader pauses, else 0.
        short_steps: Synced steps; also the number of steps beside the loader.
        pairs: Pairs of steps on two of the loader's batches, copied to the device before or not.
        host_steps: Batches for timing the loop's own work, which stops after `host_limit_s`.
    """

    load_s: float
    load_batches: int
    steps: int
    short_steps: int
    pairs: int
    host_steps: int
    host_limit_s: float
    train: BlockLength

    @classmethod
    def within(
        cls, round_s: float, estimates: Estimates, longest_round_s: float = 0.0
    ) -> "BlockSizes":
        """Return the sizes of blocks that share `round_s` seconds.

        If the loader pauses, real steps and loading alone take whole cycles, even if the round then
        exceeds `longest_round_s`. Without pauses, there are at least `_TELLING_STEPS` real steps if
        they fit into their share of `longest_round_s`.
        """
        step_s, slower_s = estimates.step_s, max(estimates.train_s, estimates.load_s)
        # Pauses shorter than a step even out in blocks that are longer by this factor.
        stutter = estimates.load_s / max(estimates.typical_load_s, MIN_LOAD_S)
        stutter = min(_MAX_STUTTER, max(1.0, stutter)) if estimates.cycle == 1 else 1.0
        telling_s = min(_TELLING_STEPS * slower_s, _TRAIN_FRACTION * longest_round_s)
        real_s = max(_TRAIN_FRACTION * round_s, telling_s) * min(stutter, _MAX_TRAIN_STUTTER)
        train_steps = clamp(3, ceil(real_s / slower_s), 400)
        if estimates.burst * slower_s < MAX_BURST_S:
            train_steps = estimates.burst * ceil(train_steps / estimates.burst)
        load_s, load_batches, cycle = 0.15 * round_s * stutter, 0, estimates.cycle
        if cycle > 1:
            load_batches = cycle * ceil(load_s / (cycle * estimates.load_s))
            longest = int(_MAX_CYCLE_ROUNDS * max(round_s, longest_round_s) / slower_s)
            cycle = clamp(1, cycle, longest)
            train_steps = cycle * ceil(train_steps / cycle)
            real_s = max(real_s, train_steps * slower_s)
        return cls(
            load_s=load_s,
            load_batches=load_batches,
            steps=clamp(2, ceil(0.15 * round_s / step_s), 200),
            short_steps=clamp(1, ceil(0.1 * round_s / step_s), 100),
            pairs=clamp(1, ceil(0.05 * round_s / estimates.transfer_s), 50),
            host_steps=clamp(2, ceil(0.1 * round_s / step_s), 50),
            host_limit_s=0.1 * round_s,
            train=BlockLength(
                steps=train_steps,
                skipped=clamp(1, train_steps // 2, _MAX_SKIPPED_STEPS),
                limit_s=_TRAIN_LIMIT_RATIO * real_s,
            ),
        )


def clamp(least: int, wanted: int, most: int) -> int:
    """Return `wanted`, limited to the range from `least` to `most`."""
    return min(most, max(least, wanted))


@dataclass(frozen=True)
class StepBlocks:
    """One round's S0, S_sync, S3, S2, S1 and H.

    S3 is None without synthetic batches, S1 if the step cannot run in a thread.
    """

    step_s: float
    synced_s: float
    loaded_s: float | None
    transfer_s: float
    shadow_s: float | None
    host_s: float
    compilations: int


@dataclass(frozen=True)
class LoadingBlocks:
    """The blocks of loading alone and of real steps in a round.

    Attributes:
        drained: Whether the buffers were drained before the loader was timed alone.
        buffered: Number of batches that the buffers held before they were drained.
        first_batch: Number of batches that the loader had given before these blocks.
        busy_fraction: Fraction of the host's CPU time that other programs took while the loader ran
            alone.
    """

    drained: bool
    buffered: float
    pulled: PulledBatches
    train: TrainBlock
    first_batch: int = 0
    busy_fraction: float = 0.0


@dataclass
class RoundLog:
    """The blocks of the complete rounds, and other observations.

    Step blocks come first in every other round, beginning with the first.

    Attributes:
        worker_cpu_s: CPU seconds of each worker before the rounds, by process id.
    """

    steps: list[StepBlocks] = field(default_factory=list)
    loads: list[LoadingBlocks] = field(default_factory=list)
    turns: list[CalibrationTurns] = field(default_factory=list)
    blocking_lines: tuple[BlockingLine, ...] = ()
    gpu: GpuHealth | None = None
    overhead_s: float = 0.0
    worker_cpu_s: dict[int, float] = field(default_factory=dict)
    ended: str = ""
    within_epochs: bool = True
    trace: str = ""
    no_trace: str = ""
    flops_per_step: float | None = None
    no_flops: str = "XLA's analysis of the step did not end"

    @property
    def train_blocks(self) -> list[TrainBlock]:
        """The real steps of each round."""
        return [load.train for load in self.loads]

    @property
    def probe_fraction(self) -> float:
        """Fraction of the requests for a batch at which the previous step was done."""
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
        larger_s = max(median(columns.load_s_per_batch), median(columns.own_step_s))
        return median(columns.train_s_per_step) > (1 + _MIN_STALL) * larger_s

    def is_tight(self) -> bool:
        """Return whether the intervals are narrow enough to end the rounds."""
        if len(self.loads) < MIN_ROUNDS:
            return False
        columns, half_width = self.columns(), statistics.half_width_fraction
        load = statistics.median_interval(columns.load_s_per_batch)
        ratio = statistics.ratio_interval(columns.train_s_per_step, columns.own_step_s)
        return half_width(load) < _TIGHT_LOAD and half_width(ratio) < _TIGHT_TRAIN

    def since(self, first: int) -> "RoundLog":
        """Return the log without the rounds before `first`."""
        return replace(self, steps=self.steps[first:], loads=self.loads[first:])

    def estimates(self) -> Estimates:
        """Return estimates from the medians over the rounds."""
        columns = self.columns()
        return Estimates(
            load_s=max(median(columns.load_s_per_batch), MIN_LOAD_S),
            typical_load_s=median(load.pulled.typical_s_per_batch for load in self.loads),
            step_s=median(columns.step_s),
            transfer_s=median(columns.step_transfer_s),
            train_s=median(columns.train_s_per_step),
            burst=self.loads[-1].pulled.group,
        )

    def columns(self) -> Rounds:
        """Return the raw values as one series per quantity."""
        steps, loads, trains = self.steps, self.loads, self.train_blocks
        pairs = zip(steps, trains, strict=True)
        return Rounds(
            load_s_per_batch=tuple(load.pulled.s_per_batch for load in loads),
            load_cpu_s_per_batch=tuple(load.pulled.cpu_s_per_batch for load in loads),
            step_s=tuple(step.step_s for step in steps),
            step_synced_s=tuple(step.synced_s for step in steps),
            step_shadow_s=tuple(step.shadow_s for step in steps if step.shadow_s is not None),
            step_transfer_s=tuple(step.transfer_s for step in steps),
            step_loaded_s=tuple(step.loaded_s for step in steps if step.loaded_s is not None),
            train_s_per_step=tuple(train.s_per_step for train in trains),
            host_s_per_step=tuple(step.host_s for step in steps),
            compilations=tuple(step.compilations + train.compilations for step, train in pairs),
            exposed_s_per_step=tuple(train.exposed_s / len(train.steps_s) for train in trains),
            busy_elsewhere_fraction=tuple(load.busy_fraction for load in loads),
        )
