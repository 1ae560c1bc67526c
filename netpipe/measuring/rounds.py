"""Rounds of interleaved blocks: each round measures every quantity once.

Rounds alternate between "step first" and "training first" (A B B A), so that a machine that
slows down favours neither side.
"""

from collections.abc import Callable
from dataclasses import replace
from math import ceil

from netpipe.clock import Clock
from netpipe.device.gpu import GpuWatch
from netpipe.errors import LoaderEndedError
from netpipe.jobs import processes
from netpipe.jobs.heartbeat import Watch
from netpipe.jobs.targets import Factories
from netpipe.measuring import calibration
from netpipe.measuring.cache_warming import find_warm_round
from netpipe.measuring.cpu_balance import CpuBalance
from netpipe.measuring.footprint_log import FootprintLog
from netpipe.measuring.loader_puller import MAX_WINDOW_RUNS, PulledBatches, Puller, T
from netpipe.measuring.pauses import Pauses
from netpipe.measuring.round_log import (
    MIN_LOAD_S,
    MIN_ROUNDS,
    BlockSizes,
    Estimates,
    LoadingBlocks,
    RoundLog,
    StepBlocks,
    clamp,
)
from netpipe.measuring.training.loop_overhead import (
    measure_host_s_per_step,
    measure_instruments_s_per_step,
)
from netpipe.measuring.training.profiler_trace import DRAIN, mark
from netpipe.measuring.training.stack_sampler import StackSampler
from netpipe.measuring.training.step_runner import StepRunner, batch_bytes, count_batch
from netpipe.measuring.training.training_loop import (
    BlockLength,
    Loop,
    TrainBlock,
    late_reading_loop,
    run_train_block,
)
from netpipe.results.measurement import Finding
from netpipe.results.units import format_seconds

# The budget is divided into this many rounds; the work between blocks leaves room for fewer.
_PLANNED_ROUNDS = 12
_RESIDENT_BATCHES = 2
# The first blocks are sized for this many seconds of rounds if a clear case may end early.
_CLEAR_CASE_S = 5.0
# On shared cores, sessions differ more from each other than rounds within one do, so compared
# sessions end after this fraction of the budget (perf_tests/studies/gate_power).
_SHARED_CORES_FRACTION = 0.5
# Calibration before the rounds: its fraction of the budget, and its number of blocks.
_CALIBRATION_FRACTION = 0.25
_MIN_CALIBRATION_BLOCKS = 3
_MAX_CALIBRATION_BLOCKS = 8
# If load time over step time is below this, a loader keeps its buffers full anyway.
DRAIN_ABOVE_FRACTION = 0.8
_WARM_UP_STEPS = 5
_WARM_UP_LOOP_STEPS = 2
_MIN_LOAD_ESTIMATES = 4
# A step above this many seconds gets time for some of the shortest rounds.
_LONG_STEP_S = 0.3
_ROUNDS_OF_LONG_STEPS = 4
_LONGEST_BUDGET_S = 300.0
# The steps and the batches of the shortest round, roughly.
_STEPS_OF_SHORTEST_ROUND, _LOADS_OF_SHORTEST_ROUND = 16, 16
# Seconds beyond the budget that may be spent to reach MIN_ROUNDS, or on a closer look.
_MAX_OVERRUN_S = 8.0
# Loading alone is watched for as many batches as this fraction of the budget has steps. A pause
# that comes four times in the budget shows once if it costs at least 8%: 0.25 * (1 - 0.08).
_WATCHED_FRACTION = 0.23
# Fractions of the budget for watching until a pause shows, and until the next pause shows.
_FIRST_PAUSE_FRACTION, _NEXT_PAUSE_FRACTION = 0.15, 0.25
# Fraction of the budget that draining may take in a round.
_DRAIN_FRACTION = 0.25
# If fewer requests than this fraction find the step done, the loop is not sampled for a sync.
_MIN_SYNC_FRACTION = 0.02
_INSTRUMENT_STEPS = 200
_INSTRUMENT_REPEATS = 5
_MAX_SAMPLED_STEPS = 100


class RoundRunner:
    """Runs the blocks of the rounds in their order, and logs what they measure."""

    def __init__(
        self,
        subject: Factories,
        puller: Puller,
        clock: Clock,
        budget_s: float,
        watch: Watch,
        footprints: FootprintLog,
        is_decided: Callable[[], bool] | None = None,
    ) -> None:
        self.subject, self.puller, self.footprints = subject, puller, footprints
        self.log = RoundLog()
        self.long_step: Finding | None = None
        self._clock, self._watch = clock, watch
        self.budget_s = self._given_s = budget_s
        self._is_decided = is_decided
        self._hoped_s = min(budget_s, _CLEAR_CASE_S) if is_decided else budget_s
        self._loop: Loop = subject.loop or late_reading_loop
        self._has_own_loop = self._loop is not late_reading_loop
        batches = [puller.first_batch]
        batches += [puller.pull()[0] for _ in range(_RESIDENT_BATCHES - 1)]
        self.batch_bytes = min(map(batch_bytes, batches))
        # Count tokens now, because the step may donate the batches later.
        self.counts = list(map(count_batch, batches))
        assert subject.step is not None
        self.stepper = StepRunner(subject.step, batches, clock, subject.synthetic)
        self.reference = calibration.ReferenceLoader(puller.processes.workers)
        puller.ignore_processes(self.reference.processes.pids)

    def run(self, half_is_enough: Callable[[], bool] = lambda: False) -> None:
        """Calibrate, warm up, then run rounds until they agree or the time is up.

        `half_is_enough` says whether half of the budget usually is; it is called once a step has
        run, when its devices are known.
        """
        watch = self._watch
        watch.enter_phase("CPU time of a batch, beside a reference loader's")
        self._calibrate()
        # By now, all workers have started, and their buffers hold little.
        self._balance = CpuBalance(self.puller, self._clock)
        watch.enter_phase("warming up the step")
        self.stepper.warm_up(0.2 * self.budget_s)
        self._gpu = GpuWatch.open(self.stepper.devices)
        self._half_is_enough = half_is_enough()
        if self._half_is_enough:
            self._hoped_s *= _SHARED_CORES_FRACTION
        # The loader fills its buffers while the step is estimated, so the step comes first.
        train_s = step_s = self.stepper.measure_resident_s(_WARM_UP_STEPS)
        # The step may be nearly done when its time begins.
        transfer_s = max(step_s, self.stepper.measure_transfer_s(1))
        # A loop that never returns must not use up the time limit for compiling a model.
        self._lengthen_budget(transfer_s)
        watch.begin_rounds(self.budget_s)
        if self._has_own_loop:
            # The trainer's loop may compile something; the harness's own loop compiles nothing.
            measure_host_s_per_step(self.stepper, self._loop, 1)
            train_s = self._train(BlockLength(_WARM_UP_LOOP_STEPS, skipped=1)).s_per_step or step_s
        watch.begin_rounds(self.budget_s)
        self._started = self._clock()
        self.log.worker_cpu_s = self.puller.processes.worker_cpu_s()
        watch.enter_phase("first estimates", self.budget_s)
        pulled = self.puller.pull_until_steady(
            0.0125 * self._hoped_s, _MIN_LOAD_ESTIMATES, 0.2 * self.budget_s
        )
        load_s, typical_s = max(pulled.s_per_batch, MIN_LOAD_S), pulled.typical_s_per_batch
        self._lengthen_budget(transfer_s, load_s)
        watch.begin_rounds(self.budget_s)
        self._estimates = Estimates(load_s, typical_s, step_s, transfer_s, train_s, pulled.group)
        self.pauses = Pauses(step_s)
        # If the loader is slower than the step even without pauses, pauses do not matter.
        if typical_s < step_s:
            self._look_for_pauses(pulled)
        self._run_rounds()
        if self._gpu is not None:
            self.log.gpu = self._gpu.health()
            self._gpu.close()
        watch.enter_phase("a closer look after the rounds", self.budget_s)
        self._look_closer()

    def _lengthen_budget(self, step_s: float, load_s: float = 0.0) -> None:
        """Give a long step the time for enough rounds."""
        round_s = _STEPS_OF_SHORTEST_ROUND * step_s + _LOADS_OF_SHORTEST_ROUND * load_s
        needed_s = _ROUNDS_OF_LONG_STEPS * round_s
        if step_s <= _LONG_STEP_S or needed_s <= self._longest_s:
            return
        self.budget_s = max(self.budget_s, min(needed_s, _LONGEST_BUDGET_S))
        became = f", so the budget became {self.budget_s:.0f} s" * (self.budget_s > self._given_s)
        self.long_step = Finding(
            "long-step",
            f"a step takes {format_seconds(step_s)}: {_ROUNDS_OF_LONG_STEPS} rounds need "
            f"{needed_s:.0f} s{became}",
        )

    def _calibrate(self) -> None:
        """Measure the CPU time of the loader's first batches beside the reference loader's."""
        share_s = _CALIBRATION_FRACTION * self._hoped_s
        started, turns = self._clock(), self.log.turns
        while len(turns) < _MIN_CALIBRATION_BLOCKS or (
            len(turns) < _MAX_CALIBRATION_BLOCKS and self._clock() - started < share_s
        ):
            block_s = share_s / _MAX_CALIBRATION_BLOCKS
            turns.append(self.reference.measure_beside(self.puller, block_s, self._clock))

    def _look_for_pauses(self, pulled: PulledBatches) -> None:
        """Keep loading alone until a rare pause shows, then until the next pause shows."""
        step_s, started = self._estimates.step_s, self._clock()
        wanted = ceil(_WATCHED_FRACTION * self.budget_s / step_s) - len(pulled.gaps_s)
        first = self.puller.pull_batches(wanted, _FIRST_PAUSE_FRACTION * self.budget_s)
        waits_s, typical_s = pulled.gaps_s + first.gaps_s, first.typical_s_per_batch
        while True:
            self.pauses = Pauses(step_s)
            self.pauses.watch(waits_s, first.group * typical_s)
            left_s = started + _NEXT_PAUSE_FRACTION * self.budget_s - self._clock()
            if self.pauses.number != 1 or not self.pauses.matter or left_s <= 0:
                break
            waits_s += self.puller.pull_batches(first.group, left_s).gaps_s
        estimates = replace(self._estimates, typical_load_s=typical_s)
        self._estimates = estimates.with_pauses(self.pauses)

    def _run_rounds(self) -> None:
        """Run rounds; if the loader cannot be started again, keep the complete rounds."""
        begun_s, log = self._clock(), self.log
        self.footprints.read(self.puller)
        while not (self._is_over(begun_s) or log.ended):
            detail = f"round {len(log.loads) + 1}"
            self._watch.enter_phase("step alone, loading, training", self.budget_s, detail)
            longest_s = self.budget_s / _PLANNED_ROUNDS
            try:
                self._run_round(BlockSizes.within(self._round_s, self._estimates, longest_s))
            except LoaderEndedError as ended:
                if not log.loads:
                    raise
                log.ended = str(ended)
            else:
                self._estimates = self._estimate()

    def _estimate(self) -> Estimates:
        """Update the pauses from the last round, and return the estimates from all rounds."""
        estimates = self.log.since(find_warm_round(self.log.loads) or 0).estimates()
        last, burst_s = self.log.loads[-1], estimates.burst * estimates.typical_load_s
        for waits_s in (last.pulled.gaps_s, last.train.waits_s):
            self.pauses.watch(waits_s, burst_s)
        return estimates.with_pauses(self.pauses)

    def _is_over(self, begun_s: float) -> bool:
        rounds, now = len(self.log.loads), self._clock()
        if rounds == 0:
            return False
        # A timed window in which the loader restarted proves nothing.
        if not self.log.within_epochs:
            return True
        with_another_s = now - self._started + (now - begun_s) / rounds
        if rounds < MIN_ROUNDS:
            return with_another_s > self._longest_s
        is_enough = self.log.is_tight if self._is_decided is None else self._is_decided
        return (not self._needs_all and is_enough()) or with_another_s > self._usual_s

    @property
    def _needs_all(self) -> bool:
        # Growth that stops is not a leak.
        return self.pauses.matter or self.footprints.may_leak

    @property
    def _usual_s(self) -> float:
        """Seconds after which the rounds end: the budget, or half of it if that is enough."""
        is_judged = self.footprints.can_judge_growth and not self._needs_all
        is_half = self._half_is_enough and is_judged
        return self.budget_s * (_SHARED_CORES_FRACTION if is_half else 1.0)

    @property
    def _longest_s(self) -> float:
        return self.budget_s + min(self.budget_s, _MAX_OVERRUN_S)

    @property
    def _round_s(self) -> float:
        """Planned seconds of a round; whole cycles of a loader that pauses may make it longer.

        Rounds are short at first, so that a clear case ends early.
        """
        is_short = len(self.log.loads) < MIN_ROUNDS or self.pauses.cycle > 1
        return (self._hoped_s if is_short else self.budget_s) / _PLANNED_ROUNDS

    def _run_round(self, sizes: BlockSizes) -> None:
        log = self.log
        if len(log.loads) % 2 == 0:
            step = self._run_step_blocks(sizes)
            self.puller.wait_for_full_buffers(0.1 * self._round_s)
            load = self._run_loading_blocks(sizes)
        else:
            # The drain finds the buffers as the real steps of the previous round left them.
            load = self._run_loading_blocks(sizes)
            step = self._run_step_blocks(sizes)
        log.steps.append(step)
        log.loads.append(load)

    def _run_step_blocks(self, sizes: BlockSizes) -> StepBlocks:
        stepper, puller = self.stepper, self.puller
        puller.wait_for_full_buffers(0.3 * self._round_s)
        if self._has_own_loop:
            # A synced step also waits for work that the loop left on the device.
            stepper.measure_synced_s(1)
        compilations = stepper.compilations()
        step_s = stepper.measure_resident_s(sizes.steps)
        if self._gpu is not None:
            self._gpu.look()
        synced_s = stepper.measure_synced_s(sizes.short_steps)
        stepper.renew_batches(tuple(puller.latest))
        loaded_s = stepper.measure_loaded_s(2 * sizes.pairs)
        transfer_s = stepper.measure_transfer_s(2 * sizes.pairs)
        compilations = stepper.compilations() - compilations
        host_s = measure_host_s_per_step(stepper, self._loop, sizes.host_steps, sizes.host_limit_s)
        shadow_s, steps = None, sizes.short_steps
        if stepper.runs_in_a_thread:
            shadow_s = self._run_within_epoch(
                steps + 1, lambda: stepper.measure_shadow_s(steps, puller, step_s)
            )
        return StepBlocks(step_s, synced_s, loaded_s, transfer_s, shadow_s, host_s, compilations)

    def _run_loading_blocks(self, sizes: BlockSizes) -> LoadingBlocks:
        puller = self.puller
        first_batch = puller.pulled

        def pull_drained() -> tuple[bool, float, PulledBatches, float]:
            # Reading the CPU times takes long enough to fill buffers, so it comes before the drain.
            host_cpu = processes.read_host_cpu()
            # Drain: buffered batches come faster than the loader makes them.
            drained, buffered = self._drain(sizes)
            limit_s = _DRAIN_FRACTION * self.budget_s
            before, pulled = self._balance.now(), self._load_alone(sizes)
            if not self._balance.covers(before):
                drained &= self._balance.drain(sizes.load_s, limit_s)
                buffered += len(pulled.gaps_s)
                pulled = self._load_alone(sizes)
            busy = processes.busy_elsewhere_fraction(host_cpu, processes.read_host_cpu())
            return drained, buffered, pulled, busy

        batches = 2 * (sizes.load_batches or ceil(sizes.load_s / self._estimates.load_s))
        drained, buffered, pulled, busy = self._run_within_epoch(batches, pull_drained)
        # The loop starts with buffers as in a long training: empty if the loader is slower than the
        # step or nearly so, else full.
        near, restarts = self._is_near_step_time(pulled.s_per_batch), puller.restarts

        def train() -> TrainBlock:
            if not near:
                # A buffer that may hide a pause must be full.
                if self.pauses.matter and buffered * self._estimates.step_s > self.pauses.mean_s:
                    self._clock.sleep(self.pauses.mean_s)
                puller.wait_for_full_buffers(0.3 * self._round_s)
            elif puller.restarts != restarts:
                self._drain(sizes)
            return self._train(sizes.train)

        trained = self._run_within_epoch(sizes.train.steps + sizes.train.skipped, train)
        # Nothing is timed here, and about equally many batches lie between readings.
        self.footprints.read(puller)
        return LoadingBlocks(drained, buffered, pulled, trained, first_batch, busy)

    def _load_alone(self, sizes: BlockSizes) -> PulledBatches:
        if sizes.load_batches:
            limit_s = 2 * sizes.load_batches * self._estimates.load_s
            return self.puller.pull_batches(sizes.load_batches, limit_s)
        return self.puller.pull_flat_out(sizes.load_s, in_epoch=True)

    def _run_within_epoch(self, batches: int, window: Callable[[], T]) -> T:
        runs = MAX_WINDOW_RUNS if self.log.within_epochs else 1
        measured, is_within = self.puller.run_within_epoch(batches, window, runs)
        self.log.within_epochs &= is_within
        return measured

    def _drain(self, sizes: BlockSizes) -> tuple[bool, float]:
        load_s, typical_s = self._estimates.load_s, self._estimates.typical_load_s
        most, limit_s = self.puller.bound_buffered(load_s), _DRAIN_FRACTION * self.budget_s
        return self.puller.drain(load_s, typical_s, sizes.load_s, limit_s, most)

    def _is_near_step_time(self, load_s: float) -> bool:
        return load_s > DRAIN_ABOVE_FRACTION * self._estimates.step_s

    def _train(self, length: BlockLength, sampler: StackSampler | None = None) -> TrainBlock:
        return run_train_block(self.puller, self.stepper, self._loop, length, sampler)

    def train_for_trace(self) -> None:
        """Run a few more real steps, starting with buffers as full as in a round."""
        if self._is_near_step_time(self._estimates.load_s):
            with mark(DRAIN):
                self._drain(BlockSizes.within(self._round_s, self._estimates))
        self._train(self._short_length())

    def _look_closer(self) -> None:
        """Take the measurements that would disturb timed windows, if time is left."""
        log = self.log
        log.overhead_s = measure_instruments_s_per_step(
            self.stepper, _INSTRUMENT_STEPS, _INSTRUMENT_REPEATS
        )
        seems_to_wait = self._has_own_loop and log.probe_fraction > _MIN_SYNC_FRACTION
        if not (seems_to_wait or log.stalls) or not self._has_time():
            return
        try:
            with StackSampler() as sampler:
                self._train(self._short_length(), sampler)
            log.blocking_lines = sampler.lines()
        except LoaderEndedError as ended:
            log.ended = str(ended)

    def _has_time(self) -> bool:
        """Return whether there is time for a few more real steps."""
        length = self._short_length()
        training_s = (length.steps + length.skipped) * self._estimates.train_s
        ends_s = self._clock() - self._started + training_s
        return not self.log.ended and ends_s < self.budget_s + _MAX_OVERRUN_S

    def _short_length(self) -> BlockLength:
        steps = ceil(0.1 * self._usual_s / self._estimates.train_s)
        return BlockLength(clamp(3, steps, _MAX_SAMPLED_STEPS), skipped=1)
