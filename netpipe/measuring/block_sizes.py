"""How much each block of a round does, so that every one has its share of the time."""

from dataclasses import dataclass
from math import ceil

from netpipe.measuring.training_loop import BlockLength

_MOST_SKIPPED_STEPS = 5
MIN_LOAD_S = 1e-9  # for loaders that cost nothing
_PATIENCE = 2.0  # times the real steps' share, whatever a loop does between them
_MOST_STUTTER = 3.0
_MOST_TRAIN_STRETCH = 2.0


@dataclass(frozen=True)
class Estimates:
    """Seconds that a batch and a step took so far: what the sizes of the next blocks rest on.

    Attributes:
        load_s: Of one batch.
        typical_load_s: The same where nothing stutters.
        step_s: Of a step alone.
        transfer_s: Of a step with a copy of its batch before it.
        train_s: Of a real step.
    """

    load_s: float
    typical_load_s: float
    step_s: float
    transfer_s: float
    train_s: float

    @property
    def stutter(self) -> float:
        """How much longer a block must be for its pauses to even out: 1 where there are none."""
        return min(_MOST_STUTTER, max(1.0, self.load_s / max(self.typical_load_s, MIN_LOAD_S)))


@dataclass(frozen=True)
class BlockSizes:
    """How much each block of a round does.

    Attributes:
        load_s: Seconds of pulling flat out.
        steps: Steps alone.
        short_steps: Steps alone, synced or beside the loader.
        copied_steps: Steps with a copy of their batch before them.
        host_steps: Batches for the loop's own work.
        host_limit_s: Seconds after which that has had enough.
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
    def within(cls, round_s: float, now: Estimates) -> "BlockSizes":
        """Share out `round_s` seconds by what things took so far."""
        real_s = 0.35 * round_s * min(now.stutter, _MOST_TRAIN_STRETCH)
        train_steps = clamp(3, ceil(real_s / max(now.train_s, now.load_s)), 400)
        return cls(
            load_s=0.15 * round_s * now.stutter,
            steps=clamp(2, ceil(0.15 * round_s / now.step_s), 200),
            short_steps=clamp(1, ceil(0.1 * round_s / now.step_s), 100),
            copied_steps=clamp(1, ceil(0.1 * round_s / now.transfer_s), 100),
            host_steps=clamp(2, ceil(0.1 * round_s / now.step_s), 50),
            host_limit_s=0.1 * round_s,
            train=BlockLength(
                steps=train_steps,
                skipped=clamp(1, train_steps // 2, _MOST_SKIPPED_STEPS),
                limit_s=_PATIENCE * real_s,
            ),
        )


def clamp(least: int, wanted: int, most: int) -> int:
    """Return `wanted`, or the end of the range that it is beyond."""
    return min(most, max(least, wanted))
