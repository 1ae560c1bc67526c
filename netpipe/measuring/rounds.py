"""Rounds of interleaved blocks: each round measures every quantity once.

Rounds alternate between "step first" and "training first" (A B B A), so that a machine that grows
slower favours neither side.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from math import ceil
from statistics import median
from typing import TypeVar

from netpipe.clock import Clock
from netpipe.device.gpu import GpuWatch
from netpipe.errors import LoaderEndedError
from netpipe.measuring import calibration
from netpipe.measuring.block_sizes import MIN_LOAD_S, BlockSizes, Estimates, clamp
from netpipe.measuring.loader_puller import LoaderFactory, PulledBatches, Puller
from netpipe.measuring.loop_overhead import (
    measure_host_s_per_step,
    measure_instruments_s_per_step,
)
from netpipe.measuring.profiler_trace import DRAIN, load_overlap_fraction, mark
from netpipe.measuring.round_log import MIN_ROUNDS, LoadingBlocks, Round, RoundLog, StepBlocks
from netpipe.measuring.stack_sampler import StackSampler
from netpipe.measuring.step_runner import BatchesFactory, StepFactory, StepRunner, batch_bytes
from netpipe.measuring.training_loop import (
    BlockLength,
    Loop,
    TrainBlock,
    late_reading_loop,
    run_train_block,
)
from netpipe.session.heartbeat import UNWATCHED, Watch

# Rounds into which the budget is divided. The work between blocks makes a round take longer, so
# that fewer fit in.
_PLANNED_ROUNDS = 12
_LIKELY_ROUNDS = 9
_ROUNDS_ACTIVITY = "step alone, loading, training"
_RESIDENT_BATCHES = 2
# Share of the budget that calibration takes before the rounds, in this many blocks.
_CALIBRATION_SHARE = 0.25
_MIN_CALIBRATION_BLOCKS = 3
_MAX_CALIBRATION_BLOCKS = 8
# Load time over step time below which a loader keeps its buffers full anyway.
_DRAIN_ABOVE_FRACTION = 0.8
_WARM_UP_STEPS = 5
_WARM_UP_LOOP_STEPS = 2
# Load times that are measured, at least, before one that agrees with the last is believed.
_MIN_LOAD_ESTIMATES = 4
_ESTIMATE_TOLERANCE = 0.25
# Seconds beyond the budget that may be spent to reach the least number of rounds.
_MAX_OVERRUN_S = 8.0
# Share of requests that find the step done, below which the loop is not sampled for a sync.
_MIN_SYNC_FRACTION = 0.02
_INSTRUMENT_STEPS = 200
_INSTRUMENT_REPEATS = 5
_MAX_SAMPLED_STEPS = 100
# Runs of a window that the end of an epoch fell into; epochs may differ in length.
_MAX_WINDOW_RUNS = 3

_T = TypeVar("_T")


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


class RoundRunner:
    """Runs the blocks of the rounds in their order, and logs what they measure."""

    def __init__(self, subject: Subject, puller: Puller, clock: Clock, budget_s: float) -> None:
        self.subject = subject
        self.puller = puller
        self.log = RoundLog()
        self._loop = subject.loop
        self._clock = clock
        self._budget_s = budget_s
        self._round_s = budget_s / _PLANNED_ROUNDS
        batches = [puller.first_batch]
        batches += [puller.pull()[0] for _ in range(_RESIDENT_BATCHES - 1)]
        self.batch_bytes = min(map(batch_bytes, batches))
        self.stepper = StepRunner(subject.step, batches, clock, subject.synthetic)
        self.reference = calibration.ReferenceLoader(puller.processes.workers)
        puller.ignore_processes(self.reference.processes.pids)

    def run(self, watch: Watch = UNWATCHED) -> None:
        """Calibrate, warm up, then run rounds until they agree or time is up."""
        watch.enter_phase("CPU time of a batch, beside a reference loader's")
        self._calibrate()
        watch.enter_phase("warming up the step")
        self.stepper.warm_up(0.2 * self._budget_s)
        gpu = GpuWatch.open(self.stepper.devices)
        # The loader fills its buffers while the step is estimated, so the step comes first.
        step_s = self.stepper.measure_resident_s(_WARM_UP_STEPS)
        transfer_s = self.stepper.measure_transfer_s(1)
        # A loop that never comes back must not take the time that compiling a model may take.
        watch.begin_rounds()
        train_s = self._warm_up_loop() or step_s
        watch.begin_rounds()
        self._started = self._clock()
        watch.enter_phase(_ROUNDS_ACTIVITY, self._budget_s, "first estimates")
        self._estimates = Estimates(*self._estimate_load_s(), step_s, transfer_s, train_s)
        self._run_rounds(watch, gpu)
        if gpu is not None:
            self.log.gpu = gpu.health()
            gpu.close()
        watch.enter_phase("a closer look at what was seen", self._budget_s)
        self._look_closer()

    def _calibrate(self) -> None:
        """Measure what the loader's first batches cost beside the reference loader's."""
        share_s = _CALIBRATION_SHARE * self._budget_s
        started, turns = self._clock(), self.log.turns
        while len(turns) < _MIN_CALIBRATION_BLOCKS or (
            len(turns) < _MAX_CALIBRATION_BLOCKS and self._clock() - started < share_s
        ):
            block_s = share_s / _MAX_CALIBRATION_BLOCKS
            turns.append(self.reference.measure_beside(self.puller, block_s, self._clock))

    def _warm_up_loop(self) -> float:
        """Let the trainer's loop compile what it needs; return the seconds of one of its steps.

        The harness's own loop compiles nothing and is not run: 0.
        """
        if self._loop is late_reading_loop:
            return 0.0
        measure_host_s_per_step(self.stepper, self._loop, 1, self._clock)
        return self._train(BlockLength(_WARM_UP_LOOP_STEPS, skipped=1)).s_per_step

    def _estimate_load_s(self) -> tuple[float, float]:
        """Pull until two load times agree: buffers are empty, and all workers have started.

        Each is measured for a fixed time, however fast batches come, which empties a deep buffer.

        Returns:
            Seconds per batch, and seconds per batch where loading does not stutter.
        """
        previous_s = 0.0
        for tries in count(1):
            pulled = self.puller.pull_flat_out(0.0125 * self._budget_s)
            load_s = pulled.s_per_batch
            agrees = abs(load_s - previous_s) <= _ESTIMATE_TOLERANCE * load_s
            is_late = self._clock() - self._started > 0.2 * self._budget_s
            if is_late or (agrees and tries >= _MIN_LOAD_ESTIMATES):
                break
            previous_s = load_s
        return max(load_s, MIN_LOAD_S), pulled.typical_s_per_batch

    def _run_rounds(self, watch: Watch, gpu: GpuWatch | None) -> None:
        """Run rounds; when the loader ends for good, keep the whole rounds before."""
        estimated, log = self._clock(), self.log
        while not (self._is_over(estimated) or log.ended):
            watch.enter_phase(_ROUNDS_ACTIVITY, self._budget_s, self._describe_progress(estimated))
            try:
                log.rounds.append(self._run_round(gpu))
            except LoaderEndedError as ended:
                if not log.rounds:
                    raise
                log.ended = str(ended)
            else:
                self._estimate_again()

    def _is_over(self, estimated: float) -> bool:
        rounds, now = len(self.log.rounds), self._clock()
        if rounds == 0:
            return False
        # A time with a restart of the loader in it proves nothing.
        if not self.log.within_epochs:
            return True
        with_another_s = now - self._started + (now - estimated) / rounds
        if rounds < MIN_ROUNDS:
            return with_another_s > self._budget_s + min(self._budget_s, _MAX_OVERRUN_S)
        return self.log.is_tight() or with_another_s > self._budget_s

    def _describe_progress(self, estimated: float) -> str:
        done, now = len(self.log.rounds), self._clock()
        likely = _LIKELY_ROUNDS
        if done:
            left_s = self._budget_s - (now - self._started)
            likely = max(MIN_ROUNDS, done + int(left_s * done / (now - estimated)))
        return f"round {done + 1} of about {max(done + 1, likely)}"

    def _run_round(self, gpu: GpuWatch | None) -> Round:
        sizes = BlockSizes.within(self._round_s, self._estimates)
        step_first = len(self.log.rounds) % 2 == 0
        if step_first:
            step = self._run_step_blocks(sizes, gpu)
            self.puller.wait_for_full_buffers(0.1 * self._round_s)
            load = self._run_loading_blocks(sizes)
        else:
            # The drain finds what the real steps of the round before have left in the buffers.
            load = self._run_loading_blocks(sizes)
            step = self._run_step_blocks(sizes, gpu)
        return Round(step, load, step_first)

    def _estimate_again(self) -> None:
        pulled = [load.pulled for load in self.log.loads]
        columns = self.log.columns()
        self._estimates = Estimates(
            load_s=max(median(columns.load_s_per_batch), MIN_LOAD_S),
            typical_load_s=median(block.typical_s_per_batch for block in pulled),
            step_s=median(columns.step_s),
            transfer_s=median(columns.step_transfer_s),
            train_s=median(columns.train_s_per_step),
        )

    def _run_step_blocks(self, sizes: BlockSizes, gpu: GpuWatch | None) -> StepBlocks:
        stepper = self.stepper
        self.puller.wait_for_full_buffers(0.3 * self._round_s)
        if self._loop is not late_reading_loop:
            # Waiting for one more step waits for all work that a loop has left on the device.
            stepper.measure_synced_s(1)
        compilations = stepper.compilations()
        step_s = stepper.measure_resident_s(sizes.steps)
        if gpu is not None:
            gpu.look()
        synced_s = stepper.measure_synced_s(sizes.short_steps)
        transfer_s = stepper.measure_transfer_s(sizes.copied_steps)
        compilations = stepper.compilations() - compilations
        host_s = measure_host_s_per_step(
            stepper, self._loop, sizes.host_steps, self._clock, sizes.host_limit_s
        )
        shadow_s = self._measure_shadow_s(sizes.short_steps, step_s)
        return StepBlocks(step_s, synced_s, transfer_s, shadow_s, host_s, compilations)

    def _measure_shadow_s(self, steps: int, step_s: float) -> float | None:
        stepper, puller = self.stepper, self.puller
        if not stepper.runs_in_a_thread:
            return None
        return self._run_within_epoch(
            steps + 1, lambda: stepper.measure_shadow_s(steps, puller, step_s)
        )

    def _run_loading_blocks(self, sizes: BlockSizes) -> LoadingBlocks:
        puller = self.puller

        def pull_drained() -> tuple[bool, float, PulledBatches]:
            # Drain: buffered batches come faster than the loader makes them.
            drained, buffered = self._drain(sizes)
            return drained, buffered, puller.pull_flat_out(sizes.load_s, in_epoch=True)

        batches = ceil(2 * sizes.load_s / self._estimates.load_s)
        drained, buffered, pulled = self._run_within_epoch(batches, pull_drained)
        # A loader near the step's speed starts the loop with empty buffers, as it will end up;
        # a faster one starts with full buffers.
        near, restarts = self._is_near_step_time(pulled.s_per_batch), puller.restarts

        def train() -> TrainBlock:
            if not near:
                puller.wait_for_full_buffers(0.3 * self._round_s)
            elif puller.restarts != restarts:
                self._drain(sizes)
            return self._train(sizes.train)

        steps = sizes.train.steps + sizes.train.skipped
        trained = self._run_within_epoch(steps, train)
        return LoadingBlocks(drained, buffered, pulled, near, trained)

    def _run_within_epoch(self, batches: int, window: Callable[[], _T]) -> _T:
        """Run a timed window, again from the start of the next epoch if the loader restarted in it.

        Args:
            batches: As many as the window takes; fewer where an epoch has no more.
            window: Measures something.
        """
        for _ in range(_MAX_WINDOW_RUNS if self.log.within_epochs else 1):
            self.puller.ensure_epoch_has(batches)
            restarts = self.puller.restarts
            measured = window()
            if self.puller.restarts == restarts:
                return measured
        self.log.within_epochs = False
        return measured

    def _drain(self, sizes: BlockSizes) -> tuple[bool, float]:
        load_s, typical_s = self._estimates.load_s, self._estimates.typical_load_s
        return self.puller.drain(load_s, typical_s, sizes.load_s, 0.25 * self._budget_s)

    def _is_near_step_time(self, load_s: float) -> bool:
        return load_s > _DRAIN_ABOVE_FRACTION * self._estimates.step_s

    def _train(self, length: BlockLength, sampler: StackSampler | None = None) -> TrainBlock:
        return run_train_block(self.puller, self.stepper, self._loop, length, self._clock, sampler)

    def train_for_trace(self) -> None:
        """Train a little once more, from buffers as full or empty as in a round.

        Raises:
            LoaderEndedError: The loader has no more batches.
        """
        if self._is_near_step_time(self._estimates.load_s):
            with mark(DRAIN):
                self._drain(BlockSizes.within(self._round_s, self._estimates))
        self._train(self._short_length())

    def _look_closer(self) -> None:
        """Measure what would disturb timed windows, as far as there is time."""
        log = self.log
        log.overhead_s = measure_instruments_s_per_step(
            self.stepper, _INSTRUMENT_STEPS, _INSTRUMENT_REPEATS, self._clock
        )
        own_loop = self._loop is not late_reading_loop
        seems_to_wait = own_loop and log.probe_fraction > _MIN_SYNC_FRACTION
        try:
            if (seems_to_wait or log.stalls) and self._has_time(_MAX_OVERRUN_S):
                with StackSampler() as sampler:
                    self._train(self._short_length(), sampler)
                log.blocking_lines = sampler.lines()
            # A profiler may take seconds to start and to stop.
            if log.stalls and self._has_time(overrun_s=0.0):
                log.load_overlap_fraction = load_overlap_fraction(
                    lambda: self._train(self._short_length())
                )
        except LoaderEndedError as ended:
            log.ended = str(ended)

    def _has_time(self, overrun_s: float) -> bool:
        """Return whether a little more training ends within the budget and so many seconds more."""
        length = self._short_length()
        training_s = (length.steps + length.skipped) * self._estimates.train_s
        ends_s = self._clock() - self._started + training_s
        return not self.log.ended and ends_s < self._budget_s + overrun_s

    def _short_length(self) -> BlockLength:
        steps = ceil(0.1 * self._budget_s / self._estimates.train_s)
        return BlockLength(clamp(3, steps, _MAX_SAMPLED_STEPS), skipped=1)
