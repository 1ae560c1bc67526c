"""When real steps asked, got, called and were done, and how their times spread."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

MOST_SHOWN: Final = 24
"""Steps that a timeline holds: as many as one look takes in."""


@dataclass(frozen=True)
class StepTimes:
    """The moments of one real step, in seconds since the first one of its timeline asked.

    The device works on it from when the step before was done, or about when this one's call began
    where that was later, until it is done.

    Attributes:
        asked_s: The loop asked for the batch.
        given_s: It got it.
        dispatched_s: Its call of the step had returned.
        done_s: The device was done with the step.
    """

    asked_s: float
    given_s: float
    dispatched_s: float
    done_s: float


@dataclass(frozen=True)
class Distributions:
    """How the times of all real steps spread, over all rounds: percentiles 0 to 100.

    Attributes:
        train_step_s: Seconds from one step's completion to the next one's, 101 numbers.
        wait_s: Seconds that a step waited for its batch, 101 numbers.
        steps: How many steps they are of.
    """

    train_step_s: tuple[float, ...]
    wait_s: tuple[float, ...]
    steps: int


def timeline(
    asked_s: Sequence[float],
    waits_s: Sequence[float],
    dispatched_s: Sequence[float],
    done_s: Sequence[float],
    skipped: int,
) -> tuple[StepTimes, ...]:
    """Return the moments of a block's last steps.

    Args:
        asked_s: When each batch was asked for; maybe more batches than steps, as a loop that
            prefetches has some in hand at its end.
        waits_s: How long each was waited for.
        dispatched_s: When each call of the step had returned.
        done_s: When each step was done.
        skipped: Steps that do not count, before the others.
    """
    first = max(skipped, len(done_s) - MOST_SHOWN)
    since_s = asked_s[first]
    moments = zip(asked_s, waits_s, dispatched_s, done_s, strict=False)
    return tuple(
        StepTimes(asked - since_s, asked + wait - since_s, dispatched - since_s, done - since_s)
        for asked, wait, dispatched, done in islice(moments, first, None)
    )
