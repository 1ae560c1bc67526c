"""The moments of real steps, and the percentiles of their times.

`netpipe/schemas/measurement.1.json` describes their fields.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import Final

MAX_TIMELINE_STEPS: Final = 24
"""Steps in a timeline: as many as fit on a readable plot."""


@dataclass(frozen=True)
class StepTimes:
    """The moments of one real step, in seconds since the first request of its timeline."""

    asked_s: float
    given_s: float
    dispatched_s: float
    done_s: float
    began_s: float | None = None


@dataclass(frozen=True)
class DeviceStep:
    """When a device can begin a step, and when it is done, in seconds of the monotonic clock."""

    began_s: float
    done_s: float


@dataclass(frozen=True)
class Distributions:
    """Percentiles 0 to 100 over the real steps of all rounds."""

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
    """Return the moments of a block's last steps, without the first `skipped` ones.

    A loop that prefetches asks for more batches than it runs steps, so `asked_s` and `waits_s` may
    be longer than the others.
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
