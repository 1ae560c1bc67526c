"""Rounds of interleaved blocks: each measures every quantity once.

Rounds alternate between "step first" and "training first" (A B B A), so that a machine that grows
slower favours neither side.
"""

from dataclasses import dataclass, field
from itertools import count
from math import ceil
from statistics import median

from netpipe.harness import calibration, stats
from netpipe.harness.clock import Clock
from netpipe.harness.pull import LoaderFactory, Puller
from netpipe.harness.stepping import BatchesFactory, StepFactory, Stepper, batch_bytes
from netpipe.harness.training import (
    Loop,
    TrainBlock,
    late_reading_loop,
    train_block,
)

_LEAST_ROUNDS = 6  # below, an interval is wide
_ROUNDS_WANTED = 9
_RESIDENT_BATCHES = 2
_DRAIN_WHEN_ABOVE = 0.8  # of the step time: a faster loader keeps its buffers full anyway
_TIGHT_LOAD = 0.03  # half-widths at which more rounds tell nothing more
_TIGHT_TRAIN = 0.02
_WARM_STEPS = 5
_MOST_SKIPPED_STEPS = 5
_LOOKS = 4  # at the load time, at least, before an estimate is believed
_AGREE = 0.25  # of each other, two looks in succession
_LEAST_LOAD_S = 1e-9  # for loaders that cost nothing
_OVERRUN = 2.0  # of the budget, to reach the least number of rounds


@dataclass(frozen=True)
class Subject:
    """What is measured.

    Attributes:
        loader: Makes the loader.
        step: Makes the state and the step.
        loop: The trainer's own loop, or the harness's.
        synthetic: Makes the batches that the step is timed on alone, at least two; the loader's
            first ones when left out.
        fingerprint: Names the data and the configuration of the loader and the step.
    """

    loader: LoaderFactory
    step: StepFactory
    loop: Loop = late_reading_loop
    synthetic: BatchesFactory | None = None
    fingerprint: str = ""


@dataclass(frozen=True)
class _Sizes:
    """How much each block of a round does."""

    load_s: float
    steps: int
    short_steps: int
    skipped_steps: int
    train_steps: int

    @classmethod
    def within(cls, round_s: float, load_s: float, step_s: float) -> "_Sizes":
        train_steps = _between(3, ceil(0.35 * round_s / max(step_s, load_s)), 400)
        return cls(
            load_s=0.15 * round_s,
            steps=_between(2, ceil(0.15 * round_s / step_s), 200),
            short_steps=_between(1, ceil(0.1 * round_s / step_s), 100),
            skipped_steps=_between(1, train_steps // 2, _MOST_SKIPPED_STEPS),
            train_steps=train_steps,
        )


def _between(least: int, wanted: int, most: int) -> int:
    return min(most, max(least, wanted))


@dataclass
class Log:
    """What the rounds have shown so far."""

    load_s: list[float] = field(default_factory=list)
    load_cpu_s: list[float] = field(default_factory=list)
    gaps_s: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    synced_s: list[float] = field(default_factory=list)
    shadow_s: list[float] = field(default_factory=list)
    transfer_s: list[float] = field(default_factory=list)
    train: list[TrainBlock] = field(default_factory=list)
    calibration_s: list[float] = field(default_factory=list)
    lent: list[float] = field(default_factory=list)
    drained: list[bool] = field(default_factory=list)
    compilations: int = 0

    @property
    def train_s(self) -> list[float]:
        """Seconds of one real step, one entry a round."""
        return [block.s_per_step for block in self.train]

    @property
    def mostly_drained(self) -> bool:
        """Whether the buffers were drained before most of the load blocks."""
        return 2 * sum(self.drained) > len(self.drained)

    def is_tight(self) -> bool:
        """Return whether more rounds would tell nothing more."""
        if len(self.load_s) < _LEAST_ROUNDS:
            return False
        load = stats.median_interval(self.load_s)
        ratio = stats.ratio_interval(self.train_s, self.step_s)
        return (
            stats.half_width_fraction(load) < _TIGHT_LOAD
            and stats.half_width_fraction(ratio) < _TIGHT_TRAIN
        )


class Bench:
    """The blocks of a round, and the order they are run in."""

    def __init__(self, subject: Subject, puller: Puller, clock: Clock, budget_s: float) -> None:
        self.puller = puller
        self.log = Log()
        self._loop = subject.loop
        self._clock = clock
        self._budget_s = budget_s
        batches = [puller.first_batch]
        batches += [puller.pull()[0] for _ in range(_RESIDENT_BATCHES - 1)]
        self.batch_bytes = min(map(batch_bytes, batches))
        self.stepper = Stepper(subject.step, batches, clock, subject.synthetic)

    def run(self) -> None:
        """Warm up, estimate both times, then do rounds until they agree or time is up."""
        self.stepper.warm_up()
        # The loader fills its buffers while the step is estimated, so the step comes first.
        self._step_s = self.stepper.resident_s(_WARM_STEPS)
        self._load_s = self._estimate_load_s()
        started = self._clock()
        compiled = self.stepper.compilations()
        while not self._is_over(started):
            self._round(step_first=len(self.log.load_s) % 2 == 0)
        self.log.compilations = self.stepper.compilations() - compiled

    def _is_over(self, started: float) -> bool:
        rounds, spent_s = len(self.log.load_s), self._clock() - started
        if rounds < _LEAST_ROUNDS:
            return spent_s > _OVERRUN * self._budget_s
        return self.log.is_tight() or spent_s * (rounds + 1) / rounds > self._budget_s

    def _estimate_load_s(self) -> float:
        """Pull until two looks agree: buffers lend no more, workers have all started.

        A look takes its time, however fast the batches come: so a deep buffer is emptied by it.
        """
        started, before_s = self._clock(), 0.0
        for look in count(1):
            now_s = self.puller.flat_out(0.0125 * self._budget_s).s_per_batch
            agree = look >= _LOOKS and abs(now_s - before_s) <= _AGREE * now_s
            if agree or self._clock() - started > 0.2 * self._budget_s:
                break
            before_s = now_s
        return max(now_s, _LEAST_LOAD_S)

    def _round(self, *, step_first: bool) -> None:
        round_s = self._budget_s / _ROUNDS_WANTED
        sizes = _Sizes.within(round_s, self._load_s, self._step_s)
        self.log.calibration_s.append(calibration.workload_cpu_s())
        if step_first:
            self._step_blocks(sizes, round_s)
            self._loading_blocks(sizes, round_s)
        else:
            self._loading_blocks(sizes, round_s)
            self._step_blocks(sizes, round_s)
        self._load_s = median(self.log.load_s)
        self._step_s = median(self.log.step_s)

    def _step_blocks(self, sizes: _Sizes, round_s: float) -> None:
        log, stepper = self.log, self.stepper
        self.puller.settle(0.3 * round_s)
        log.step_s.append(stepper.resident_s(sizes.steps))
        log.synced_s.append(stepper.synced_s(sizes.short_steps))
        log.transfer_s.append(stepper.transfer_s(sizes.short_steps))
        log.shadow_s.append(stepper.shadow_s(sizes.short_steps, self.puller, log.step_s[-1]))

    def _loading_blocks(self, sizes: _Sizes, round_s: float) -> None:
        log, puller = self.log, self.puller
        # Drain: what the buffers lend is not the loader's speed.
        drained, lent = puller.drain(self._load_s, sizes.load_s, limit_s=0.25 * self._budget_s)
        log.drained.append(drained)
        log.lent.append(lent)
        pulled = puller.flat_out(sizes.load_s)
        log.load_s.append(pulled.s_per_batch)
        log.load_cpu_s.append(pulled.cpu_s_per_batch)
        log.gaps_s.extend(pulled.gaps_s)
        # A loader near the step's speed starts the loop with empty buffers, where it will end up;
        # a faster one with full ones.
        if log.load_s[-1] <= _DRAIN_WHEN_ABOVE * self._step_s:
            puller.settle(0.3 * round_s)
        log.train.append(
            train_block(
                puller,
                self.stepper,
                self._loop,
                sizes.train_steps,
                sizes.skipped_steps,
                self._clock,
            )
        )
