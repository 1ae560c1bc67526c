"""Whether batches are made while they are pulled, or were made before: the CPU time of workers."""

from typing import Final, NamedTuple

from netpipe.clock import Clock
from netpipe.measuring.loader_puller import Puller

# Share of the CPU time of a batch that those of a block must have taken; with less, they were made
# before. Beside a step on the same cores, workers take more CPU time for a batch.
_MADE_FRACTION: Final = 0.8


class Used(NamedTuple):
    """The CPU seconds of the workers, the batches pulled, and the restarts of the loader so far."""

    cpu_s: float
    pulled: int
    restarts: int


class CpuBalance:
    """Compares the CPU time of workers for the batches of a block with that for all batches.

    A loader that only looks drained, because its deep buffers give a batch about as slowly as its
    workers make one, gives batches that have cost them next to nothing. It must be made when all
    workers have started and buffers hold little.
    """

    def __init__(self, puller: Puller, clock: Clock) -> None:
        self._puller = puller
        self._clock = clock
        self._drained = self.now()
        self._cost_s = 0.0

    def now(self) -> Used:
        """Return what was used so far."""
        puller = self._puller
        return Used(puller.processes.children_cpu_s(), puller.pulled, puller.restarts)

    def covers(self, before: Used) -> bool:
        """Return whether the workers spent on the batches since then about what a batch costs.

        What one costs follows from all since the last block that was covered; after a restart, from
        those before it. A block with a restart in it is not judged.
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
        """Pull blocks until together they are covered; return whether they are.

        It gives up after `limit_s` seconds, and where an epoch ends.
        """
        before, until_s = self.now(), self._clock() + limit_s
        while self._clock() <= until_s and self._puller.epoch_has(self._puller.group):
            self._puller.pull_flat_out(block_s, in_epoch=True)
            if self.covers(before):
                return True
        return False
