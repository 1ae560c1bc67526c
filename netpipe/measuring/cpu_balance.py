"""Detect batches that were made earlier, because they cost less CPU time than usual."""

from typing import Final, NamedTuple

from netpipe.clock import Clock
from netpipe.measuring.loader_puller import Puller

# If a block took less than this fraction of its batches' usual CPU time, the batches were made
# earlier. A step on the same cores raises the CPU time of a batch, and threads that sleep between
# batches use up to 1.7 times as much CPU time per batch as threads that never sleep.
_MADE_FRACTION: Final = 0.8
_MADE_FRACTION_IN_THREADS: Final = _MADE_FRACTION / 1.7


class Used(NamedTuple):
    """The CPU seconds used for loading, the batches pulled and the restarts so far."""

    cpu_s: float
    pulled: int
    restarts: int


class CpuBalance:
    """Compares the loader's CPU time per batch in a block with its usual CPU time per batch.

    Batches may leave deep buffers about as slowly as workers or threads make them. The loader then
    looks drained, although its batches cost next to no CPU time. Create the object once all workers
    have started and buffers hold little.
    """

    def __init__(self, puller: Puller, clock: Clock) -> None:
        self._puller, self._clock = puller, clock
        self._drained, self._cost_s = self.now(), 0.0

    def now(self) -> Used:
        """Return the CPU seconds, batches and restarts so far."""
        puller = self._puller
        return Used(puller.loading_cpu_s(), puller.pulled, puller.restarts)

    def covers(self, before: Used) -> bool:
        """Return whether the batches since `before` took about their usual CPU time.

        The usual time is the mean since the last covered block, or, after a restart, the last mean
        before it. A block that contains a restart counts as covered.
        """
        now, drained = self.now(), self._drained
        if before.restarts != now.restarts:
            return True
        cost_s = self._cost_s
        if drained.restarts == now.restarts:
            cost_s = (now.cpu_s - drained.cpu_s) / (now.pulled - drained.pulled)
        fraction = (
            _MADE_FRACTION if self._puller.processes.worker_pids else _MADE_FRACTION_IN_THREADS
        )
        covered_s = fraction * cost_s * (now.pulled - before.pulled)
        if now.cpu_s - before.cpu_s < covered_s:
            return False
        self._drained, self._cost_s = now, cost_s
        return True

    def drain(self, block_s: float, limit_s: float) -> bool:
        """Pull blocks until `covers` holds for them all, `limit_s` passes or the epoch ends.

        Return whether it holds.
        """
        before, until_s = self.now(), self._clock() + limit_s
        while self._clock() <= until_s and self._puller.epoch_has(self._puller.group):
            self._puller.pull_flat_out(block_s, in_epoch=True)
            if self.covers(before):
                return True
        return False
