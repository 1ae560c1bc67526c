"""The times of the events in real steps, and the percentiles of their durations."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Annotated, Final

from netpipe.results.fields import Amount, Must, PositiveCount

MAX_TIMELINE_STEPS: Final = 24
"""The number of steps that fit in a readable plot."""


@dataclass(frozen=True)
class StepTimes:
    """The times of the events in one real step, in seconds since its timeline's first request."""

    asked_s: Amount  #: The loop asked for the batch.
    given_s: Amount  #: The loop got it.
    dispatched_s: Amount  #: The call of the step returned.
    #: The device is done with the step. Exact for an emulated device; the host sees a real device's
    #: end late while the loop holds Python's global lock.
    done_s: Amount
    #: The device begins the step: when the previous step is done or this one is called, whichever
    #: is later. Negative before the first request.
    began_s: float


@dataclass(frozen=True)
class DeviceStep:
    """The times at which a device begins and ends a step, in seconds of the monotonic clock."""

    began_s: float
    done_s: float


_Percentiles = Annotated[tuple[Amount, ...], Must(minItems=101, maxItems=101)]


@dataclass(frozen=True)
class Distributions:
    """Percentiles 0 to 100 over the real steps of all rounds."""

    train_step_s: _Percentiles  #: Seconds from one step's completion to the next one's.
    wait_s: _Percentiles  #: Seconds that a step waited for its batch.
    steps: PositiveCount


def timeline(
    asked_s: Sequence[float],
    waits_s: Sequence[float],
    dispatched_s: Sequence[float],
    device_steps: Sequence[DeviceStep],
    skipped: int,
) -> tuple[StepTimes, ...]:
    """Return the times of a block's last steps, leaving out the first `skipped` steps.

    A loop that prefetches requests more batches than it runs steps, so `asked_s` and `waits_s` may
    be longer than the other sequences.
    """
    first = max(skipped, len(device_steps) - MAX_TIMELINE_STEPS)
    since_s = asked_s[first]
    before_s = (-inf, *(step.done_s for step in device_steps))
    moments = zip(asked_s, waits_s, dispatched_s, device_steps, before_s, strict=False)
    return tuple(
        StepTimes(
            asked_s=asked - since_s,
            given_s=asked + wait - since_s,
            dispatched_s=dispatched - since_s,
            done_s=step.done_s - since_s,
            began_s=max(step.began_s, before) - since_s,
        )
        for asked, wait, dispatched, step, before in islice(moments, first, None)
    )
