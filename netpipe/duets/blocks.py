"""The blocks that one side of a duet times, a class for each quantity."""

from math import ceil
from typing import Any, Final, Protocol

from netpipe.clock import Clock
from netpipe.measuring.loader_puller import Puller
from netpipe.measuring.loop_overhead import measure_host_s_per_step
from netpipe.measuring.round_log import MIN_LOAD_S, clamp
from netpipe.measuring.rounds import DRAIN_ABOVE_FRACTION
from netpipe.measuring.step_runner import StepRunner
from netpipe.measuring.training_loop import BlockLength, Loop, TrainBlock, run_train_block

# Seconds of a block at most, and as a share of the budget. Between shorter blocks more time passes
# unused, and beside longer ones more changes.
_MAX_BLOCK_S: Final = 0.3
_BLOCK_SHARE: Final = 0.03
# Steps alone take so much of a block's time.
_ALONE_SHARE: Final = 0.2
_MAX_BATCHES: Final = 2000
_MAX_STEPS: Final = 200
_MAX_SKIPPED_STEPS: Final = 5
_MAX_FILLING_S: Final = 2.0
_MAX_DRAINING_S: Final = 4.0

Size = tuple[int, ...]
"""How many batches or steps of a block are timed, and then what else belongs to it."""


def block_seconds(budget_s: float) -> float:
    """Return the seconds of a block in a duet of so many seconds."""
    return min(_MAX_BLOCK_S, _BLOCK_SHARE * budget_s)


class Blocks(Protocol):
    """Times blocks of one quantity; `size` is what this side alone would choose."""

    size: Size

    def run(self, size: Size) -> dict[str, Any]:
        """Time a block; return values by metric, or `arrivals_s`, the clock at each batch.

        There are none where the loader ended or started again within the block.
        """


class LoadBlocks:
    """Batches pulled flat out, while the other side does the same.

    The second part of a size are the batches before those that are timed: full buffers may have
    held them.
    """

    def __init__(self, puller: Puller, clock: Clock, block_s: float) -> None:
        self._puller = puller
        self._clock = clock
        puller.pull_flat_out(block_s)  # all workers have started then
        pulled = puller.pull_flat_out(block_s)
        load_s = max(pulled.s_per_batch, MIN_LOAD_S)
        puller.wait_for_full_buffers(_MAX_FILLING_S)
        _, buffered = puller.drain(load_s, pulled.typical_s_per_batch, block_s, _MAX_DRAINING_S)
        self.size: Size = (
            clamp(2 * puller.group, ceil(block_s / load_s), _MAX_BATCHES),
            min(ceil(buffered), _MAX_BATCHES),
        )

    def run(self, size: Size) -> dict[str, Any]:
        """Pull a block; CPU time is read when buffers are full, before and after it."""
        timed, skipped = size
        batches = timed + skipped
        (cpu_s, arrivals_s), is_within = self._puller.run_within_epoch(
            batches, lambda: self._pull(batches), runs=1
        )
        if not is_within or len(arrivals_s) < skipped + 2:
            return {}
        return {"load_cpu_ratio": cpu_s, "arrivals_s": arrivals_s[skipped:]}

    def _pull(self, batches: int) -> tuple[float, list[float]]:
        puller, arrivals_s = self._puller, list[float]()
        puller.wait_for_full_buffers(_MAX_FILLING_S)
        before_s = puller.processes.cpu_s()
        while not arrivals_s or (len(arrivals_s) < batches and puller.epoch_has(1)):
            puller.pull()
            arrivals_s.append(self._clock())
        puller.wait_for_full_buffers(_MAX_FILLING_S)
        return (puller.processes.cpu_s() - before_s) / len(arrivals_s), arrivals_s


class StepBlocks:
    """Steps on resident batches, in turns with the other side."""

    def __init__(self, stepper: StepRunner, block_s: float) -> None:
        self._stepper = stepper
        self.size: Size = (_count_steps(stepper, block_s),)

    def run(self, size: Size) -> dict[str, Any]:
        """Time the steps, blocked once at their end."""
        return {"step_s": self._stepper.measure_resident_s(*size)}


class TrainBlocks:
    """Steps of the real loop, in turns with the other side; the second part are steps alone."""

    def __init__(self, puller: Puller, stepper: StepRunner, loop: Loop, block_s: float) -> None:
        self._puller = puller
        self._stepper = stepper
        self._loop = loop
        measure_host_s_per_step(stepper, loop, 1)
        step_s = stepper.measure_resident_s(2)
        self._block_s = block_s
        self._pulled = puller.pull_flat_out(block_s)
        load_s = self._pulled.s_per_batch
        self._drains = load_s > DRAIN_ABOVE_FRACTION * step_s
        train_s = max(load_s, step_s, self._train(2).s_per_step)
        self.size: Size = (
            clamp(3, ceil(block_s / train_s), _MAX_STEPS),
            _count_steps(stepper, block_s),
        )

    def run(self, size: Size) -> dict[str, Any]:
        """Time the loop from buffers as long training finds them: full, or empty if it drains."""
        steps, alone = size
        step_s = self._stepper.measure_resident_s(alone)

        def train() -> TrainBlock:
            if self._drains:
                load_s, typical_s = self._pulled.s_per_batch, self._pulled.typical_s_per_batch
                self._puller.drain(load_s, typical_s, self._block_s, _MAX_DRAINING_S)
            return self._train(steps)

        block, is_within = self._puller.run_within_epoch(2 * steps, train, runs=1)
        self._puller.wait_for_full_buffers(_MAX_FILLING_S)  # it rests during the other's turn
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


def _count_steps(stepper: StepRunner, block_s: float) -> int:
    """Return how many steps alone belong to a block."""
    return clamp(1, ceil(_ALONE_SHARE * block_s / stepper.measure_resident_s(2)), _MAX_STEPS)
