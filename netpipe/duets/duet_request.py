"""The request of one side of a duet."""

from dataclasses import dataclass
from typing import NamedTuple

from netpipe.measuring.measure_request import MeasureRequest


class BlockSize(NamedTuple):
    """The size of every block of a duet.

    Attributes:
        timed: Timed batches or steps.
        skipped: Untimed batches at the start, which may have been loaded before the block began.
        alone: Steps timed without a loader, before the loop runs.
        drains: Whether the loop starts with empty buffers.
    """

    timed: int
    skipped: int = 0
    alone: int = 0
    drains: bool = False

    def fit_to(self, other: "BlockSize") -> "BlockSize":
        """Return a size for both sides; a longer block could take the slower side too long."""
        return BlockSize(
            timed=min(self.timed, other.timed),
            skipped=max(self.skipped, other.skipped),
            alone=max(self.alone, other.alone),
            drains=self.drains or other.drains,
        )


class CoreUse(NamedTuple):
    """Use of the cores by a loader whose batches are pulled flat out.

    Attributes:
        helpers: The number of its worker processes, and of its Python threads.
        cores: CPU seconds per second.
        rests: Whether its buffers are full a short while after a block; False if that is not known.
    """

    helpers: tuple[int, int]
    cores: float
    rests: bool


@dataclass(frozen=True)
class DuetRequest(MeasureRequest):
    """The settings of one side of a duet.

    Attributes:
        quantity: The timed quantity, a key of `netpipe.gate.metrics.GATED`.
    """

    kind: str = "duet"
    quantity: str = "load_s_per_batch"

    @property
    def duet_s(self) -> float:
        """Seconds of one duet: half the budget, because several duets are needed."""
        return 0.5 * self.budget_s
