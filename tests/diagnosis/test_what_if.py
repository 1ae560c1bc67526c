"""What each change would give, and which one is tried."""

from dataclasses import replace

import pytest

from netpipe.diagnosis.cost_model import Parts, Work, with_workers
from netpipe.diagnosis.prediction import Known
from netpipe.diagnosis.what_if import (
    WITHOUT_STAGE,
    Change,
    changes,
    headroom,
    predictions,
    worth_trying,
)
from netpipe.results.measurement import Interval
from tests.diagnosis.examples import stage_time

TIMES = (stage_time("Map of f", 0.030), stage_time("Batch", 0.010), stage_time("Source", 0.001))
PARTS = Parts(
    ((Work(0.030, 0.001), True), (Work(0.010, 0.001), True), (Work(0.001, 0.001), True)),
    workers=1,
    threads=0,
    cores=64,
)
KNOWN = Known(PARTS, (0.041,) * 3)
COMPUTING = tuple((Work(work.wall_s, work.wall_s), True) for work, _ in PARTS.stages)
CROWDED = Known(replace(PARTS, stages=COMPUTING, cores=1), (0.041,) * 3)
ALONE = Known(with_workers(PARTS, 0), (0.041,) * 3)


def counts(known: Known, step_s: float | None = None, moved: Known | None = None) -> list[int]:
    """Return the numbers of workers that are listed."""
    return [one.workers for one in changes(known, moved, TIMES, step_s) if one.workers is not None]


def tried(
    known: Known = KNOWN, step_s: float | None = None, can_omit: tuple[int, ...] = ()
) -> Change | None:
    """Return the change that is worth trying."""
    every = changes(known, None, TIMES, step_s)
    return worth_trying(every, known.s_per_batch, step_s, can_omit)


@pytest.mark.parametrize(
    ("now", "listed"),
    [(0, [1, 2, 3, 4]), (1, [2, 3, 4]), (3, [1, 2, 4, 6]), (8, [1, 2, 3, 4, 9, 16])],
)
def test_other_counts_than_the_present_one_are_listed(now: int, listed: list[int]) -> None:
    """The first few, one more than now and twice as many, and never what there is."""
    assert counts(Known(with_workers(PARTS, now), (0.041,) * 3)) == listed


def test_as_many_as_feed_the_step_are_listed() -> None:
    """7 workers load in 41/7 = 5.86 ms, with 1.25 to spare for a step of 7.4 ms; 6 do not."""
    assert counts(KNOWN, 0.0074) == [2, 3, 4, 7]


def test_a_step_that_no_workers_feed_adds_none() -> None:
    """Where the cores bound long before, no number of workers is listed for it."""
    busy = Known(replace(PARTS, stages=((Work(0.040, 0.040), True),), cores=2), (0.040,) * 3)
    assert counts(busy, 0.001) == [2, 3, 4]


def test_workers_are_foreseen_from_one_where_one_was_measured() -> None:
    """A loader without workers was measured with one: that is what more are made of."""
    moved = Known(with_workers(PARTS, 1), (0.060,) * 3)
    two = next(one for one in changes(ALONE, moved, TIMES, None) if one.workers == 2)
    assert two.prediction.median == pytest.approx(0.030)


def test_the_two_largest_stages_are_changed() -> None:
    """Each as if it were twice as fast, and as if it cost nothing."""
    says = [one.says for one in changes(KNOWN, None, TIMES, None) if "stage" in one.kind]
    assert says == [
        "Map of f twice as fast",
        "Map of f at no cost",
        "Batch twice as fast",
        "Batch at no cost",
    ]


def test_payload_counts_where_there_is_one() -> None:
    """Bytes between processes are made fewer only where they take time."""
    heavy = Known(replace(PARTS, payload_send_s=0.040), (0.081,) * 3)
    kinds = {one.kind for one in changes(heavy, None, TIMES, None)}
    assert {"narrower-dtype", "no-transfer"} <= kinds
    none = next(one for one in changes(heavy, None, TIMES, None) if one.kind == "no-transfer")
    assert none.prediction.median == pytest.approx(0.041)
    assert "no-transfer" not in {one.kind for one in changes(KNOWN, None, TIMES, None)}


def test_half_a_batch_takes_half_the_time() -> None:
    """A smaller batch is made of fewer elements."""
    half = next(one for one in changes(KNOWN, None, TIMES, None) if one.kind == "smaller-batch")
    assert half.prediction.median == pytest.approx(0.041 / 2)


def test_every_change_has_its_prediction() -> None:
    """The table has what was foreseen, and the headroom only where there is a step."""
    every = changes(KNOWN, None, TIMES, 0.041)
    foreseen = predictions(every, 0.041)
    assert [one.change for one in foreseen] == [one.says for one in every]
    two = foreseen[0]
    assert two.headroom is not None
    assert two.headroom.median == pytest.approx(2.0)
    half = next(one for one in foreseen if one.kind == "smaller-batch")
    assert half.headroom is None  # its step is another one
    assert predictions(every, None)[0].headroom is None


def test_headroom_turns_an_interval_round() -> None:
    """The longest load time leaves the least headroom; one that may be nothing bounds none."""
    found = headroom(Interval(0.020, 0.010, 0.040, 3), 0.040)
    assert found == Interval(2.0, 1.0, 4.0, 3)
    unbounded = headroom(Interval(0.020, 0.0, float("inf"), 1), 0.040)
    assert unbounded is not None
    assert (unbounded.low, unbounded.high) == (0.0, float("inf"))


def test_the_fewest_workers_that_feed_the_step_are_tried() -> None:
    """Two would help too, but four feed it with room to spare."""
    change = tried(step_s=0.041 / 4 * 1.25)
    assert change is not None
    assert change.workers == 4


def test_more_workers_are_tried_even_where_none_feed_the_step() -> None:
    """Without a step, or with one that is never fed, the first that helps is tried."""
    for step_s in (None, 1e-6):
        change = tried(step_s=step_s)
        assert change is not None
        assert change.workers == 2


def test_a_stage_is_left_out_where_workers_cannot_help() -> None:
    """The first stage that can be left out and is worth it is tried."""
    change = tried(CROWDED, can_omit=(1, 2))
    assert change is not None
    assert (change.kind, change.place) == (WITHOUT_STAGE, 1)


def test_what_promises_nothing_is_not_tried() -> None:
    """Neither a stage that cannot be left out, nor one that hardly counts."""
    assert tried(CROWDED) is None
    assert tried(CROWDED, can_omit=(2,)) is None


def test_reader_threads_that_cost_are_given_up_first() -> None:
    """The prediction is what the single-thread run takes, and it is tried before workers."""
    known = Known(replace(PARTS, workers=0, threads=16), (0.098,) * 3)
    every = changes(known, None, TIMES, None, Known(PARTS, (0.041,) * 3))
    change = worth_trying(every, 0.098, None, (0, 1))
    assert change is not None
    assert change.kind == "no-threads"
    assert change.prediction == Interval(0.041, 0.041, 0.041, 3)
    assert "no-threads" not in {one.kind for one in changes(known, None, TIMES, None)}


@pytest.mark.parametrize(("with_one_s", "workers"), [(0.020, 1), (0.100, 3), (0.200, None)])
def test_workers_are_held_against_the_loader_as_it_is(
    with_one_s: float, workers: int | None
) -> None:
    """Not against one worker, which may be faster than the loader as it is, or much slower."""
    moved = Known(replace(PARTS, cores=3), (with_one_s,) * 3)
    change = worth_trying(changes(ALONE, moved, TIMES, None), 0.041, None, ())
    assert (change.workers if change else None) == workers
