"""The timeline of the loop and the device."""

import re
from dataclasses import replace
from itertools import pairwise
from random import Random
from statistics import fmean

import pytest

from netpipe.measuring.training.emulated_step import Engines
from netpipe.reporting.content import Drawing
from netpipe.reporting.parts import build_parts
from netpipe.reporting.plots.timeline import build_timeline
from netpipe.results import statistics
from netpipe.results.step_times import MAX_TIMELINE_STEPS, StepTimes, timeline
from tests.reporting import examples

STEPS = tuple(StepTimes(**step) for step in examples.timeline())


def test_a_device_that_waits_is_idle() -> None:
    """The device is idle from the end of a step until the next batch."""
    found = build_timeline(STEPS)
    assert len(found.idle) == len(STEPS) - 1
    assert found.idle[0] == pytest.approx((0.066, 0.010))
    assert found.idle_fraction == pytest.approx(0.010 / 0.040)
    assert found.waiting_fraction == pytest.approx(12 * 0.036 / (11 * 0.040 + 0.037))


def test_a_step_is_never_done_before_it_began() -> None:
    """Slightly different clocks give a step of 0 s, not a negative one."""
    (first, second, *_) = STEPS
    hasty = replace(second, done_s=second.given_s - 0.001)
    assert build_timeline((first, hasty)).working[1].length_s == 0


@pytest.mark.parametrize("platform", ["emulated", "gpu"])
def test_the_caption_has_the_figures(platform: str) -> None:
    """The idle share is a lower bound where the host sees the ends of steps late."""
    document = examples.measurement()
    document["device"]["platform"] = platform
    (part,) = build_parts(document)
    drawing = part.cards[0]
    assert isinstance(drawing, Drawing)
    assert re.search(r" 25%.* 91%", drawing.caption)
    assert ("at least" in drawing.caption) == (platform == "gpu")


def simulated(seed: int) -> tuple[float, tuple[StepTimes, ...], list[float]]:
    """Train on an emulated device with random delays.

    Loader time, loop work before the step, a sync after it, and copies are each present or not.

    Returns:
        The time of a step, the timeline, and the seconds of each step but the first.
    """
    draw = Random(seed)
    step_s, load_s, work_s = (draw.choice((0.0, 1.0)) * draw.uniform(1, 30) / 1000 for _ in "abc")
    step_s += 0.001
    engines = Engines(step_s, copy_bytes_per_s=draw.choice((1e9, float("inf"))))
    syncs, now_s = draw.random() < 0.5, 0.0
    asked_s, waits_s, dispatched_s, work = [], [], [], []
    for _ in range(40):
        asked_s.append(now_s)
        waits_s.append(load_s * draw.uniform(0.5, 2))
        now_s += waits_s[-1] + work_s * draw.uniform(0.5, 2)
        work.append(engines.device_step(engines.dispatch(round(now_s * 1e9), 5_000_000)))
        now_s += 0.0001
        dispatched_s.append(now_s)
        now_s = max(now_s, work[-1 if syncs else -2 if len(work) > 1 else -1].done_s)
    found = timeline(asked_s, waits_s, dispatched_s, work, skipped=5)
    return step_s, found, [after.done_s - before.done_s for before, after in pairwise(found)]


@pytest.mark.parametrize("seed", range(40))
def test_the_idle_share_is_the_stall_fraction(seed: int) -> None:
    """The timeline and the verdict agree about the same steps."""
    step_s, found, steps_s = simulated(seed)
    assert len(found) == MAX_TIMELINE_STEPS
    shown = build_timeline(found)
    assert shown.device_s == pytest.approx(sum(steps_s))
    stall = statistics.stall_interval([step_s], [fmean(steps_s)]).median
    assert shown.idle_fraction == pytest.approx(stall, abs=1e-6)


def test_the_loops_own_work_before_a_step_is_no_work_of_the_device() -> None:
    """A device begins at the call of the step, not when the loop gets the batch."""
    moments = tuple(
        StepTimes(at, at + 0.001, at + 0.031, at + 0.041, at + 0.031) for at in (0.0, 0.041, 0.082)
    )
    assert build_timeline(moments).idle_fraction == pytest.approx(0.031 / 0.041)
