"""Comparing the CPU time of workers with that of batches, to detect batches made earlier."""

from typing import Final, NamedTuple

from netpipe.clock import Clock
from netpipe.measuring.loader_puller import Puller

# The batches of a block that took less than this fraction of their usual CPU time were made before
# the block. A step on the same cores raises the CPU time of a batch.
_MADE_FRACTION: Final = 0.8


class Used(NamedTuple):
    """The CPU seconds of the workers, the batches pulled, and the restarts of the loader so far."""

    cpu_s: float
    pulled: int
    restarts: int


class CpuBalance:
    """Compares the workers' CPU time for the batches of a block with that for all batches.

    Deep buffers may give a batch about as slowly as workers make one. The loader then looks
    drained, but its batches cost next to no CPU time. Create the object once all workers have
    started and buffers hold little.
    """

    def __init__(self, puller: Puller, clock: Clock) -> None:
        self._puller, self._clock = puller, clock
        self._drained, self._cost_s = self.now(), 0.0

    def now(self) -> Used:
        """Return the figures so far."""
        puller = self._puller
        return Used(puller.processes.children_cpu_s(), puller.pulled, puller.restarts)

    def covers(self, before: Used) -> bool:
        """Return whether the batches since `before` took the workers about their usual CPU time.

        The usual time is that since the last covered block, or the one before the last restart. A
        block that contains a restart counts as covered.
        """
        now, drained = self.now(), self._drained
        if before.restarts != now.restarts:
            return True
        cost_s = self._cost_s
        if drained.restarts == now.restarts:
            cost_s = (now.cpu_s - drained.cpu_s) / (now.pulled - drained.pulled)
        covered_s = _MADE_FRACTION * cost_s * (now.pulled - before.pulled)
        if now.cpu_s - before.cpu_s < covered_s:
            return False
        self._drained, self._cost_s = now, cost_s
        return True

    def drain(self, block_s: float, limit_s: float) -> bool:
        """Pull blocks until together they are covered, `limit_s` passes or the epoch ends.

        Return whether they are covered.
        """
        before, until_s = self.now(), self._clock() + limit_s
        while self._clock() <= until_s and self._puller.epoch_has(self._puller.group):
            self._puller.pull_flat_out(block_s, in_epoch=True)
            if self.covers(before):
                return True
        return False
