"""How much each block of a round does, so that every block gets its share of the time."""

from dataclasses import dataclass
from math import ceil

from netpipe.measuring.training_loop import BlockLength

# Seconds per batch that a loader which costs nothing is taken to need.
MIN_LOAD_S = 1e-9
_MAX_SKIPPED_STEPS = 5
_MAX_STUTTER = 3.0
_MAX_TRAIN_STUTTER = 2.0
# Real steps end after this many times their share, whatever the loop does between them.
_TRAIN_LIMIT_RATIO = 2.0


@dataclass(frozen=True)
class Estimates:
    """Medians so far, in seconds, from which the sizes of the next blocks follow.

    Attributes:
        load_s: One batch.
        typical_load_s: One batch where loading does not stutter.
        step_s: A step alone.
        transfer_s: A step with a copy of its batch before it.
        train_s: A real step.
    """

    load_s: float
    typical_load_s: float
    step_s: float
    transfer_s: float
    train_s: float

    @property
    def stutter(self) -> float:
        """How much longer a block must be for pauses to even out; 1 without pauses."""
        return min(_MAX_STUTTER, max(1.0, self.load_s / max(self.typical_load_s, MIN_LOAD_S)))


@dataclass(frozen=True)
class BlockSizes:
    """How much each block of a round does.

    Attributes:
        load_s: Seconds of pulling flat out.
        steps: Steps alone.
        short_steps: Steps alone, synced or beside the loader.
        copied_steps: Steps with a copy of their batch before them.
        host_steps: Batches for the loop's own work.
        host_limit_s: Seconds after which the loop's own work is no longer measured.
        train: Real steps.
    """

    load_s: float
    steps: int
    short_steps: int
    copied_steps: int
    host_steps: int
    host_limit_s: float
    train: BlockLength

    @classmethod
    def within(cls, round_s: float, estimates: Estimates) -> "BlockSizes":
        """Divide `round_s` seconds among the blocks."""
        step_s, slower_s = estimates.step_s, max(estimates.train_s, estimates.load_s)
        real_s = 0.35 * round_s * min(estimates.stutter, _MAX_TRAIN_STUTTER)
        train_steps = clamp(3, ceil(real_s / slower_s), 400)
        return cls(
            load_s=0.15 * round_s * estimates.stutter,
            steps=clamp(2, ceil(0.15 * round_s / step_s), 200),
            short_steps=clamp(1, ceil(0.1 * round_s / step_s), 100),
            copied_steps=clamp(1, ceil(0.1 * round_s / estimates.transfer_s), 100),
            host_steps=clamp(2, ceil(0.1 * round_s / step_s), 50),
            host_limit_s=0.1 * round_s,
            train=BlockLength(
                steps=train_steps,
                skipped=clamp(1, train_steps // 2, _MAX_SKIPPED_STEPS),
                limit_s=_TRAIN_LIMIT_RATIO * real_s,
            ),
        )


def clamp(least: int, wanted: int, most: int) -> int:
    """Return `wanted`, or the end of the range that it is beyond."""
    return min(most, max(least, wanted))
