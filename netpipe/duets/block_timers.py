"""Timers for the blocks of one side of a duet, one class per quantity.

`size` is the block size that the side would choose alone. `time_block` returns values by metric, or
an empty dict if the loader restarted within the block.
"""

import time
from functools import partial
from math import ceil
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from netpipe.clock import Clock
from netpipe.duets.duet_request import BlockSize, CoreUse
from netpipe.gate.metrics import ONCE
from netpipe.jobs.heartbeat import Watch
from netpipe.measuring.footprint_log import FootprintLog
from netpipe.measuring.loader_puller import QUIET_CORES, PulledBatches, Puller
from netpipe.measuring.round_log import MIN_LOAD_S, clamp
from netpipe.measuring.rounds import DRAIN_ABOVE_FRACTION
from netpipe.measuring.training.loop_overhead import measure_host_s_per_step
from netpipe.measuring.training.step_runner import StepRunner
from netpipe.measuring.training.training_loop import BlockLength, Loop, TrainBlock, run_train_block

# Longest time of a block, in seconds and as a share of the duet. Shorter blocks waste more time in
# between; during longer blocks, the machine's load changes.
_MAX_BLOCK_S: Final = 0.3
_BLOCK_SHARE: Final = 0.03
# A loader is pulled for at least this share of a block's time.
_MIN_BLOCK_SHARE: Final = 0.5
# Steps without a loader take this share of a block's time.
_ALONE_SHARE: Final = 0.2
_MAX_BATCHES: Final = 2000
_MAX_STEPS: Final = 200
_MAX_SKIPPED_STEPS: Final = 5
_MAX_FILLING_S: Final = 2.0
_MAX_DRAINING_S: Final = 4.0

_MIN_ESTIMATES: Final = 2
# Each trial of emptying the buffers pulls more batches than the one before, by this factor.
_TRIAL_GROWTH: Final = 1.5
# The buffers were empty if a longer trial leaves at most this many times as many batches to make.
_MAX_LEFT_GROWTH: Final = 1.05
# Fewer batches take too little CPU time to be counted by it.
_MIN_COUNTED_BATCHES: Final = 16
_MAX_FIRST_TRIAL_S: Final = 1.0


def block_seconds(duet_s: float) -> float:
    """Return the seconds of a block in a duet of `duet_s` seconds."""
    return min(_MAX_BLOCK_S, _BLOCK_SHARE * duet_s)


def _estimate_load(puller: Puller, block_s: float) -> PulledBatches:
    return puller.pull_until_steady(block_s, _MIN_ESTIMATES, _MAX_DRAINING_S)


class _PulledBlock(NamedTuple):
    """A block of batches pulled flat out, until the buffers were full again.

    Attributes:
        stamps_s: The times before the first batch and after each batch.
        made_after: Batches that were made after the last one was pulled.
        is_full: Whether the buffers were full again before the time for that was over.
    """

    cpu_s_per_batch: float
    stamps_s: list[float]
    made_after: float
    is_full: bool


class LoadTimer:
    """Times batches that are pulled flat out."""

    def __init__(
        self, puller: Puller, clock: Clock, block_s: float, footprints: FootprintLog
    ) -> None:
        self._puller, self._footprints = puller, footprints
        self._clock = clock
        self._block_s = block_s
        pulled = _estimate_load(puller, block_s)
        load_s = max(pulled.s_per_batch, MIN_LOAD_S)
        puller.wait_for_full_buffers(_MAX_FILLING_S)
        _, buffered = puller.drain(load_s, pulled.typical_s_per_batch, block_s, _MAX_DRAINING_S)
        puller.wait_for_full_buffers(_MAX_FILLING_S)
        self._restarts, self._load_s, self._rests = puller.restarts, load_s, False
        timed = clamp(2 * puller.group, ceil(block_s / load_s), _MAX_BATCHES)
        skipped = self._count_until_empty(min(ceil(buffered), _MAX_BATCHES), timed)
        self.size = BlockSize(timed, skipped)
        cores = pulled.cpu_s_per_batch / load_s
        self.core_use = CoreUse(puller.helpers, cores, self._rests)

    def _count_until_empty(self, buffered: int, timed: int) -> int:
        """Return how many batches must be pulled until full buffers are empty, at least `buffered`.

        A loader may take nearly as long to hand out a buffered batch as to make one, and then looks
        drained. But a block that empties the buffers leaves as many batches to make as any longer
        block.
        """
        puller, left_after = self._puller, dict[int, float]()
        enough = min(_MIN_COUNTED_BATCHES, timed, max(1, int(_MAX_FIRST_TRIAL_S / self._load_s)))
        wanted, trial_s = max(buffered, min(puller.group, enough)), 0.0
        while wanted not in left_after and trial_s < _MAX_DRAINING_S:
            # A block must fit into an epoch.
            if puller.epoch_batches is not None and wanted + timed > puller.epoch_batches:
                break
            began_s, most = self._clock(), max(left_after.values(), default=0.0)
            pull = partial(self._pull, wanted)
            pulled, is_within = puller.run_within_epoch(wanted, pull, runs=1)
            if not is_within:
                break
            left_after[wanted], trial_s = pulled.made_after, self._clock() - began_s
            self._rests = pulled.is_full
            is_empty = pulled.made_after <= max(1.0, _MAX_LEFT_GROWTH * most)
            if not pulled.is_full or (wanted >= enough and is_empty):
                break
            wanted = min(ceil(_TRIAL_GROWTH * wanted), _MAX_BATCHES)
        most = max(left_after.values(), default=0.0)
        if most <= 1:
            return buffered
        return min(number for number, left in left_after.items() if _MAX_LEFT_GROWTH * left >= most)

    def time_block(self, size: BlockSize) -> dict[str, Any]:
        """Pull a block and return its times; CPU time is read with full buffers.

        `stamps_s` are the times before the first batch and after each batch. `once` maps
        each metric of `ONCE` to a list of its value so far, which is empty while it is unknown.
        """
        batches = size.timed + size.skipped
        # Beside a much slower side, a fast side pulls `batches` in less than a block's time.
        pull = partial(self._pull, batches, _MIN_BLOCK_SHARE * self._block_s)
        pulled, is_within = self._puller.run_within_epoch(batches, pull, runs=1)
        if not is_within or len(pulled.stamps_s) < size.skipped + 2:
            return {}
        self._footprints.read(self._puller)
        about = {"first_batch_s": self._puller.first_batch_s, **self._footprints.describe()}
        found: Any = SimpleNamespace(**about)
        known = [each for each in ONCE if each.name in about]
        once = {each.name: [each.value(found)] * each.is_in(found) for each in known}
        cpu_s, stamps_s = pulled.cpu_s_per_batch, pulled.stamps_s
        return {"load_cpu_ratio": cpu_s, "stamps_s": stamps_s, "once": once}

    def _pull(self, batches: int, least_s: float = 0.0) -> _PulledBlock:
        puller = self._puller
        if puller.restarts != self._restarts:  # Otherwise, the last block ended with full buffers.
            puller.wait_for_full_buffers(_MAX_FILLING_S)
            self._restarts = puller.restarts
        before_s, stamps_s = puller.processes.cpu_s(), [self._clock()]
        ends_s = stamps_s[0] + least_s
        while len(stamps_s) <= batches or stamps_s[-1] < ends_s:
            if len(stamps_s) > 1 and not puller.epoch_has(1):
                break
            puller.pull()
            stamps_s.append(self._clock())
        # Waiting also costs CPU time, because this thread keeps reading the CPU clocks.
        waits_from_s, pulled_s = time.thread_time(), puller.processes.cpu_s()
        puller.wait_for_full_buffers(_MAX_FILLING_S)
        waits_s = time.thread_time() - waits_from_s
        after_s = puller.processes.cpu_s() - pulled_s - waits_s
        filling_s = self._clock() - stamps_s[-1]
        cpu_s_per_batch = (pulled_s - before_s + after_s) / (len(stamps_s) - 1)
        # A loader that is quiet at once has made nothing.
        makes = after_s > QUIET_CORES * filling_s
        made_after = after_s / cpu_s_per_batch if makes else 0.0
        return _PulledBlock(cpu_s_per_batch, stamps_s, made_after, filling_s < _MAX_FILLING_S)


class StepTimer:
    """Times steps on resident batches, alternately with the other side."""

    def __init__(self, stepper: StepRunner, block_s: float) -> None:
        self._stepper = stepper
        self.size = BlockSize(_count_steps(stepper, block_s))

    def time_block(self, size: BlockSize) -> dict[str, Any]:
        """Time the steps, waiting for the device only once, at the end."""
        return {"step_s": self._stepper.measure_resident_s(size.timed)}


class TrainTimer:
    """Times steps of the real loop, alternately with the other side."""

    def __init__(
        self, puller: Puller, stepper: StepRunner, loop: Loop, block_s: float, watch: Watch
    ) -> None:
        self._puller = puller
        self._stepper = stepper
        self._loop = loop
        # A loop that never returns must not use up the time limit for compiling a model.
        watch.begin_rounds()
        measure_host_s_per_step(stepper, loop, 1)
        watch.begin_rounds()
        step_s = stepper.measure_resident_s(2)
        self._block_s = block_s
        self._pulled = _estimate_load(puller, block_s)
        load_s = self._pulled.s_per_batch
        train_s = max(load_s, step_s, self._train(2).s_per_step)
        self.size = BlockSize(
            clamp(3, ceil(block_s / train_s), _MAX_STEPS),
            alone=_count_steps(stepper, block_s),
            drains=load_s > DRAIN_ABOVE_FRACTION * step_s,
        )

    def time_block(self, size: BlockSize) -> dict[str, Any]:
        """Time the loop with buffers as in a long training: full, or empty if it drains them."""
        step_s = self._stepper.measure_resident_s(size.alone)

        def train() -> TrainBlock:
            if size.drains:
                load_s, typical_s = self._pulled.s_per_batch, self._pulled.typical_s_per_batch
                self._puller.drain(load_s, typical_s, self._block_s, _MAX_DRAINING_S)
            return self._train(size.timed)

        block, is_within = self._puller.run_within_epoch(2 * size.timed, train, runs=1)
        # The loader must be idle during the other side's turn.
        self._puller.wait_for_full_buffers(_MAX_FILLING_S)
        if not is_within:
            return {}
        return {
            "train_s_per_step": block.s_per_step,
            "accelerator_utilisation": step_s / block.s_per_step,
            "sync_probe_fraction": block.ready / max(1, block.asked),
        }

    def _train(self, steps: int) -> TrainBlock:
        length = BlockLength(steps, skipped=clamp(1, steps // 2, _MAX_SKIPPED_STEPS))
        return run_train_block(self._puller, self._stepper, self._loop, length)


BlockTimer = LoadTimer | StepTimer | TrainTimer


def _count_steps(stepper: StepRunner, block_s: float) -> int:
    """Return the number of steps without a loader that a block times."""
    return clamp(1, ceil(_ALONE_SHARE * block_s / stepper.measure_resident_s(2)), _MAX_STEPS)
