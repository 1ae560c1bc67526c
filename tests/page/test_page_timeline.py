"""Who waits for whom: when the device works, and when it has nothing to do."""

from dataclasses import astuple, replace

import pytest

from netpipe.page.plots.timeline import TimelineStep, caption, lanes
from tests.page import examples

STEPS = tuple(TimelineStep(**one) for one in examples.timeline())


def test_a_device_that_waits_is_idle() -> None:
    """From when a step is done to when the next one's batch is there."""
    found = lanes(STEPS)
    assert len(found.idle) == len(STEPS) - 1
    assert astuple(found.idle[0]) == pytest.approx((0.066, 0.076))
    assert found.idle_fraction == pytest.approx(11 * 0.010 / (11 * 0.040 + 0.030))
    assert found.waiting_fraction == pytest.approx(12 * 0.036 / (11 * 0.040 + 0.037))


def test_a_device_that_is_behind_is_never_idle() -> None:
    """It begins a step when the one before is done, however early its batch came."""
    ahead = tuple(
        TimelineStep(0.001 * number, 0.001 * number, 0.001 * number, 0.03 * (number + 1))
        for number in range(5)
    )
    found = lanes(ahead)
    assert found.idle == ()
    assert found.idle_fraction == 0
    assert astuple(found.working[3]) == pytest.approx((0.09, 0.12))


def test_a_step_is_never_done_before_it_began() -> None:
    """Clocks that disagree by a little give a step of no time, and none of less."""
    (first, second, *_) = STEPS
    hasty = replace(second, done_s=second.given_s - 0.001)
    assert lanes((first, hasty)).working[1].length_s == 0


def test_the_caption_has_the_figures() -> None:
    """What the eye sees, in percent."""
    assert "23% of the time" in caption(lanes(STEPS))
    assert "91% of it" in caption(lanes(STEPS))
