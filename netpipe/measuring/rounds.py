"""Rounds of interleaved blocks: each measures every quantity once.

Rounds alternate between "step first" and "training first" (A B B A), so that a machine that grows
slower favours neither side.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
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
from netpipe.measuring.loop_overhead import measure_host_s_per_step, measure_instruments_s_per_step
from netpipe.measuring.profiler_trace import DRAIN, load_overlap_fraction, mark
from netpipe.measuring.round_log import MIN_ROUNDS, RoundLog
from netpipe.measuring.stack_sampler import StackSampler
from netpipe.measuring.step_runner import BatchesFactory, StepFactory, StepRunner, batch_bytes
from netpipe.measuring.training_loop import (
    BlockLength,
    Loop,
    TrainBlock,
    late_reading_loop,
    run_train_block,
)
from netpipe.results.measurement import BlockingLine
from netpipe.session.heartbeat import UNWATCHED, Watch

_ROUNDS_WANTED = 12  # with all that lies between its blocks a round takes longer,
_ROUNDS_LIKELY = 9  # and so many fit in
_MEASURING = "step alone, loading, training"
_RESIDENT_BATCHES = 2
_TURNS_SHARE = 0.25  # of the budget, before the rounds
_LEAST_TURNS = 3
_TURNS = 8  # blocks of turns, for their ratios to have an interval
_DRAIN_WHEN_ABOVE = 0.8  # of the step time: a faster loader keeps its buffers full anyway
_WARM_STEPS = 5
_WARM_LOOP_STEPS = 2
_LOOKS = 4  # at the load time, at least, before an estimate is believed
_AGREE = 0.25  # of each other, two looks in succession
_MOST_OVERRUN_S = 8.0  # beyond the budget, to reach the least number of rounds
_SELDOM = 0.02  # of the steps were done when the next batch was asked for: nothing to look for
_INSTRUMENT_STEPS = 200
_INSTRUMENT_LOOKS = 5
_MOST_WATCHED_STEPS = 100
_TRIES = 3  # at a window that the end of an epoch fell into; epochs may differ in length

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
    """The blocks of a round, and the order they are run in."""

    def __init__(self, subject: Subject, puller: Puller, clock: Clock, budget_s: float) -> None:
        self.puller = puller
        self.log = RoundLog()
        self._loop = subject.loop
        self._clock = clock
        self._budget_s = budget_s
        batches = [puller.first_batch]
        batches += [puller.pull()[0] for _ in range(_RESIDENT_BATCHES - 1)]
        self.batch_bytes = min(map(batch_bytes, batches))
        self.stepper = StepRunner(subject.step, batches, clock, subject.synthetic)
        self.reference = calibration.ReferenceLoader(puller.processes.workers)
        puller.ignore_processes(self.reference.processes.pids)

    def run(self, watch: Watch = UNWATCHED) -> None:
        """Warm up, estimate every time, then do rounds until they agree or time is up."""
        watch.enter_phase("CPU time of a batch, beside a reference loader's")
        self._pull_in_turns()
        watch.enter_phase("warming up the step")
        self.stepper.warm_up(0.2 * self._budget_s)
        self._gpu = GpuWatch.open(self.stepper.devices)
        # The loader fills its buffers while the step is estimated, so the step comes first.
        step_s = self.stepper.measure_resident_s(_WARM_STEPS)
        transfer_s = self.stepper.measure_transfer_s(1)
        # A loop that never comes back must not take the time that compiling a model may take.
        watch.begin_rounds()
        train_s = self._warmed_up_loop_s() or step_s
        watch.begin_rounds()
        self._started = self._clock()
        watch.enter_phase(_MEASURING, self._budget_s, "first looks")
        self._now = Estimates(*self._estimated_load_s(), step_s, transfer_s, train_s)
        estimated = self._clock()
        while not (self._is_over(estimated) or self.log.ended):
            watch.enter_phase(_MEASURING, self._budget_s, self._which_round(estimated))
            self._round_or_end(len(self.log.load_s))
        if self._gpu is not None:
            self.log.gpu = self._gpu.health()
            self._gpu.close()
        watch.enter_phase("a closer look at what was seen", self._budget_s)
        self._look_closer()

    def _pull_in_turns(self) -> None:
        """Measure what the loader's first batches cost beside the reference loader's."""
        share_s = _TURNS_SHARE * self._budget_s
        started, turns = self._clock(), self.log.turns
        while len(turns) < _LEAST_TURNS or (
            len(turns) < _TURNS and self._clock() - started < share_s
        ):
            turns.append(self.reference.measure_beside(self.puller, share_s / _TURNS, self._clock))

    def _warmed_up_loop_s(self) -> float:
        """Let a loop compile what it does beside the step; return what a step of it takes.

        The harness's own loop does nothing of the kind, and is not run: 0.
        """
        if self._loop is late_reading_loop:
            return 0.0
        measure_host_s_per_step(self.stepper, self._loop, 1, self._clock)
        return self._train(BlockLength(_WARM_LOOP_STEPS, skipped=1)).s_per_step

    def _is_over(self, estimated: float) -> bool:
        rounds, now = len(self.log.load_s), self._clock()
        if rounds == 0:
            return False
        if not self.log.within_epochs:  # nothing can be told from it
            return True
        with_another_s = now - self._started + (now - estimated) / rounds
        if rounds < MIN_ROUNDS:
            return with_another_s > self._budget_s + min(self._budget_s, _MOST_OVERRUN_S)
        return self.log.is_tight() or with_another_s > self._budget_s

    def _which_round(self, estimated: float) -> str:
        done, now = len(self.log.load_s), self._clock()
        likely = _ROUNDS_LIKELY
        if done:
            left_s = self._budget_s - (now - self._started)
            likely = max(MIN_ROUNDS, done + int(left_s * done / (now - estimated)))
        return f"round {done + 1} of about {max(done + 1, likely)}"

    def _estimated_load_s(self) -> tuple[float, float]:
        """Pull until two looks agree: buffers lend no more, workers have all started.

        A look takes its time, however fast the batches come: so a deep buffer is emptied by it.

        Returns:
            Seconds of a batch, and of a batch where nothing stutters.
        """
        before_s = 0.0
        for look in count(1):
            pulled = self.puller.pull_flat_out(0.0125 * self._budget_s)
            now_s = pulled.s_per_batch
            agree = look >= _LOOKS and abs(now_s - before_s) <= _AGREE * now_s
            if agree or self._clock() - self._started > 0.2 * self._budget_s:
                break
            before_s = now_s
        return max(now_s, MIN_LOAD_S), pulled.typical_s_per_batch

    def _round_or_end(self, number: int) -> None:
        """Do a round; a loader that has nothing more to give leaves the whole rounds before."""
        try:
            self._round(number)
        except LoaderEndedError as ended:
            if number == 0:
                raise
            self.log.keep(number)
            self.log.ended = str(ended)

    def _round(self, number: int) -> None:
        round_s = self._budget_s / _ROUNDS_WANTED
        log, sizes = self.log, BlockSizes.within(round_s, self._now)
        if number % 2 == 0:
            compiled = self._step_blocks(sizes, round_s)
            self.puller.wait_for_full_buffers(0.1 * round_s)
            compiled += self._loading_blocks(sizes, round_s, log.lent_when_full)
        else:
            # What the drain finds is what the real steps of the round before have left.
            compiled = self._loading_blocks(sizes, round_s, log.lent_after_train)
            compiled += self._step_blocks(sizes, round_s)
        log.compilations.append(compiled)
        self._now = Estimates(
            load_s=max(median(log.load_s), MIN_LOAD_S),
            typical_load_s=median(log.typical_load_s),
            step_s=median(log.step_s),
            transfer_s=median(log.transfer_s),
            train_s=median(log.train_s),
        )

    def _step_blocks(self, sizes: BlockSizes, round_s: float) -> int:
        """Measure the step alone and in its variations; return how often something compiled."""
        log, stepper = self.log, self.stepper
        self.puller.wait_for_full_buffers(0.3 * round_s)
        if self._loop is not late_reading_loop:
            stepper.catch_up()
        compiled = stepper.compilations()
        log.step_s.append(stepper.measure_resident_s(sizes.steps))
        if self._gpu is not None:
            self._gpu.look()
        log.synced_s.append(stepper.measure_synced_s(sizes.short_steps))
        log.transfer_s.append(stepper.measure_transfer_s(sizes.copied_steps))
        compiled = stepper.compilations() - compiled
        log.host_s.append(
            measure_host_s_per_step(
                stepper, self._loop, sizes.host_steps, self._clock, sizes.host_limit_s
            )
        )
        if stepper.runs_in_a_thread:
            steps = sizes.short_steps
            shadow_s = partial(stepper.measure_shadow_s, steps, self.puller, log.step_s[-1])
            log.shadow_s.append(self._in_an_epoch(steps + 1, shadow_s))
        return compiled

    def _in_an_epoch(self, batches: int, window: Callable[[], _T]) -> _T:
        """Run a window in which the loader is not started again: a restart is no loading.

        Where its epoch ends in the window, the window is run once more from the start of the next.

        Args:
            batches: As many as the window takes; fewer where an epoch has no more.
            window: What is measured.
        """
        for _ in range(_TRIES if self.log.within_epochs else 1):
            self.puller.ensure_epoch_has(batches)
            restarts = self.puller.restarts
            measured = window()
            if self.puller.restarts == restarts:
                return measured
        self.log.within_epochs = False
        return measured

    def _loading_blocks(self, sizes: BlockSizes, round_s: float, lent_log: list[float]) -> int:
        """Measure the loader alone and the real loop; return how often something compiled."""
        log, puller = self.log, self.puller

        def drained_load() -> tuple[bool, float, PulledBatches]:
            # Drain: what the buffers lend is not the loader's speed.
            drained, lent = self._drain(sizes)
            return drained, lent, puller.pull_flat_out(sizes.load_s, in_epoch=True)

        batches = ceil(2 * sizes.load_s / self._now.load_s)
        drained, lent, pulled = self._in_an_epoch(batches, drained_load)
        log.drained.append(drained)
        lent_log.append(lent)
        log.load_s.append(pulled.s_per_batch)
        log.typical_load_s.append(pulled.typical_s_per_batch)
        log.load_cpu_s.append(pulled.cpu_s_per_batch)
        log.gaps_s.append(pulled.gaps_s)
        # A loader near the step's speed starts the loop with empty buffers, where it will end up;
        # a faster one with full ones.
        near = self._is_near(log.load_s[-1])
        log.trained_drained.append(near)
        restarts = puller.restarts

        def real_steps() -> TrainBlock:
            if not near:
                puller.wait_for_full_buffers(0.3 * round_s)
            elif puller.restarts != restarts:
                self._drain(sizes)
            return self._train(sizes.train)

        steps = sizes.train.steps + sizes.train.skipped
        log.train.append(self._in_an_epoch(steps, real_steps))
        return log.train[-1].compilations

    def _drain(self, sizes: BlockSizes) -> tuple[bool, float]:
        now, limit_s = self._now, 0.25 * self._budget_s
        return self.puller.drain(now.load_s, now.typical_load_s, sizes.load_s, limit_s)

    def _is_near(self, load_s: float) -> bool:
        return load_s > _DRAIN_WHEN_ABOVE * self._now.step_s

    def _train(self, length: BlockLength, sampler: StackSampler | None = None) -> TrainBlock:
        return run_train_block(self.puller, self.stepper, self._loop, length, self._clock, sampler)

    def train_to_be_seen(self) -> None:
        """Train a little once more, from buffers as full or empty as in a round.

        Raises:
            LoaderEndedError: The loader has nothing more to give.
        """
        if self._is_near(self._now.load_s):
            with mark(DRAIN):
                self._drain(BlockSizes.within(self._budget_s / _ROUNDS_WANTED, self._now))
        self._train_a_little()

    def _look_closer(self) -> None:
        """Measure what must not be measured while times count, as far as there is time."""
        self.log.overhead_s = measure_instruments_s_per_step(
            self.stepper, _INSTRUMENT_STEPS, _INSTRUMENT_LOOKS, self._clock
        )
        try:
            if (self._seems_to_wait() or self.log.stalls) and self._has_time(_MOST_OVERRUN_S):
                self.log.blocking_lines = self._blocking_lines()
            # A profiler may take seconds to start and to stop.
            if self.log.stalls and self._has_time(overrun_s=0.0):
                self.log.load_overlap_fraction = load_overlap_fraction(self._train_a_little)
        except LoaderEndedError as ended:
            self.log.ended = str(ended)

    def _has_time(self, overrun_s: float) -> bool:
        """Return whether a little more training ends so soon after the budget, or before it."""
        length = self._a_little()
        ends_s = self._clock() - self._started + (length.steps + length.skipped) * self._now.train_s
        return not self.log.ended and ends_s < self._budget_s + overrun_s

    def _seems_to_wait(self) -> bool:
        return self._loop is not late_reading_loop and self.log.probe_fraction > _SELDOM

    def _blocking_lines(self) -> tuple[BlockingLine, ...]:
        with StackSampler() as sampler:
            self._train_a_little(sampler)
        return sampler.lines()

    def _train_a_little(self, sampler: StackSampler | None = None) -> None:
        self._train(self._a_little(), sampler)

    def _a_little(self) -> BlockLength:
        steps = ceil(0.1 * self._budget_s / self._now.train_s)
        return BlockLength(clamp(3, steps, _MOST_WATCHED_STEPS), skipped=1)
