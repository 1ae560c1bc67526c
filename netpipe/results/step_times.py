"""When real steps asked, got, called and were done, and how their times spread."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Final

MOST_SHOWN: Final = 24
"""Steps that a timeline holds: as many as one look takes in."""


@dataclass(frozen=True)
class StepTimes:
    """The moments of one real step, in seconds since the first one of its timeline asked.

    Attributes:
        asked_s: The loop asked for the batch.
        given_s: It got it.
        dispatched_s: Its call of the step had returned.
        done_s: The device was done with the step; as the host saw it, which is later where the
            loop holds Python's lock, or of an emulated device exactly.
        began_s: The device began the step: when the step before was done or this one was called,
            whichever was later; of an emulated device exactly. None in an older document.
    """

    asked_s: float
    given_s: float
    dispatched_s: float
    done_s: float
    began_s: float | None = None


@dataclass(frozen=True)
class DeviceStep:
    """When a device does a step, in seconds of the monotonic clock.

    Attributes:
        began_s: It began, at the earliest.
        done_s: It was done.
    """

    began_s: float
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
    device_steps: Sequence[DeviceStep],
    skipped: int,
) -> tuple[StepTimes, ...]:
    """Return the moments of a block's last steps.

    Args:
        asked_s: When each batch was asked for; maybe more batches than steps, as a loop that
            prefetches has some in hand at its end.
        waits_s: How long each was waited for.
        dispatched_s: When each call of the step had returned.
        device_steps: When the device could begin each step, and when it was done.
        skipped: Steps that do not count, before the others.
    """
    first = max(skipped, len(device_steps) - MOST_SHOWN)
    since_s = asked_s[first]
    before_s = (-inf, *(one.done_s for one in device_steps))
    moments = zip(asked_s, waits_s, dispatched_s, device_steps, before_s, strict=False)
    return tuple(
        StepTimes(
            asked_s=asked - since_s,
            given_s=asked + wait - since_s,
            dispatched_s=dispatched - since_s,
            done_s=worked.done_s - since_s,
            began_s=max(worked.began_s, before) - since_s,
        )
        for asked, wait, dispatched, worked, before in islice(moments, first, None)
    )
