"""The times of real steps: in a block, in a measurement, in a document."""

from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

import pytest

from netpipe.gate import baseline
from netpipe.results.step_times import (
    MAX_TIMELINE_STEPS,
    DeviceStep,
    Distributions,
    StepTimes,
    timeline,
)
from tests.measurements import make_measurement
from tests.measuring.conftest import LOAD_S, STEP_S, Rehearse

TIMES = (StepTimes(0.0, 0.5, 0.6, 1.0, 0.6), StepTimes(0.7, 0.8, 0.9, 2.0, 1.0))
SPREAD = Distributions(tuple(map(float, range(101))), (0.25,) * 101, 180)


def made_timeline(steps: int, skipped: int, in_hand: int = 0) -> tuple[StepTimes, ...]:
    """Make the timeline of steps that ask every 10 s, wait 1 s, call for 2 s and last 7 s."""
    asked_s = [100.0 + 10 * step for step in range(steps + in_hand)]
    return timeline(
        asked_s,
        [1.0] * len(asked_s),
        [began_s + 3 for began_s in asked_s[:steps]],
        [DeviceStep(began_s + 2, began_s + 7) for began_s in asked_s[:steps]],
        skipped,
    )


@pytest.mark.parametrize(
    ("steps", "shown"),
    [
        (2 * MAX_TIMELINE_STEPS, MAX_TIMELINE_STEPS),
        (MAX_TIMELINE_STEPS, MAX_TIMELINE_STEPS - 5),
        (7, 2),
    ],
)
def test_the_last_steps_that_count_are_shown(steps: int, shown: int) -> None:
    """The timeline is bounded, has no skipped steps, and begins at 0."""
    moments = made_timeline(steps, skipped=5)
    assert moments == tuple(
        StepTimes(at, at + 1, at + 3, at + 7, at + 2)
        for at in (10.0 * step for step in range(shown))
    )


def test_a_step_begins_behind_the_one_before() -> None:
    """The device does one step at a time, however early the next one is called."""
    work = [DeviceStep(1.0, 5.0), DeviceStep(2.0, 8.0), DeviceStep(9.0, 10.0)]
    found = timeline([0.0, 1.0, 2.0], [0.5] * 3, [1.5, 2.5, 9.5], work, skipped=0)
    assert [(moments.began_s, moments.done_s) for moments in found] == [
        (1.0, 5.0),
        (5.0, 8.0),
        (9.0, 10.0),
    ]


def test_prefetched_batches_at_the_end_are_not_steps() -> None:
    """Batches without a call of the step are not in the timeline."""
    assert made_timeline(9, skipped=1, in_hand=3) == made_timeline(9, skipped=1)


def test_a_measurement_shows_its_last_round(rehearse: Rehearse) -> None:
    """Each step asks when the previous one was called, and waits for the loader."""
    found = rehearse()
    assert 2 <= len(found.timeline) <= MAX_TIMELINE_STEPS
    assert found.timeline[0].asked_s == 0.0
    for step in found.timeline:
        assert step.given_s == pytest.approx(step.asked_s + LOAD_S)
        assert step.dispatched_s == pytest.approx(step.given_s + STEP_S)
        assert step.done_s == pytest.approx(step.dispatched_s)
        assert step.began_s == pytest.approx(step.given_s)
    for step, following in pairwise(found.timeline):
        assert following.asked_s == pytest.approx(step.dispatched_s)


def test_a_loader_that_grew_slow_is_shown_as_it_is_at_last(rehearse: Rehearse) -> None:
    """The timeline shows the end of training, not its beginning."""
    gaps_s = (0.010 + 0.00001 * number for number in range(100_000))
    found = rehearse(gaps_s)
    waits_s = [step.given_s - step.asked_s for step in found.timeline]
    assert found.distributions is not None
    assert max(waits_s) == pytest.approx(found.distributions.wait_s[100])


def test_percentiles_cover_the_steps_of_all_rounds(rehearse: Rehearse) -> None:
    """The percentiles cover every step that counts, from the minimum to the maximum."""
    found = rehearse(cycle([0.010, 0.010, 0.010, 0.050]), budget_s=30.0)
    spread = found.distributions
    assert spread is not None
    assert spread.steps > len(found.timeline)
    assert (spread.wait_s[0], spread.wait_s[50], spread.wait_s[100]) == pytest.approx(
        (0.010, 0.010, 0.050)
    )
    assert (spread.train_step_s[0], spread.train_step_s[100]) == pytest.approx((0.040, 0.080))
    assert spread.wait_s[95] == pytest.approx(found.wait_s.p95)


def test_a_baseline_keeps_no_timeline_and_percentiles(tmp_path: Path) -> None:
    """Timelines would only make a baseline of ten sessions larger."""
    theirs: dict[str, Any] = {"datetime": "2026-11-21", "commit_info": {}, "benchmarks": []}
    made = make_measurement(timeline=TIMES, distributions=SPREAD)
    path = baseline.save(tmp_path, "first", theirs, {"a::b": (made,)})
    assert "timeline" not in path.read_text()
    assert "distributions" not in path.read_text()
    assert baseline.load(path).sessions == {"a::b": (make_measurement(),)}
