"""Predictions of changes, and the choice of the one to try."""

from dataclasses import replace
from math import inf

import pytest

from netpipe.diagnosis.cost_model import LoaderModel, StageCost
from netpipe.diagnosis.read_scaling import BANDWIDTH, ReadScaling
from netpipe.diagnosis.turns import divide
from netpipe.diagnosis.what_if import (
    LARGER_RECORDS,
    READS,
    WITHOUT_STAGE,
    WORKERS,
    Change,
    MeasuredLoader,
    choose_change,
    list_changes,
)
from netpipe.results.measurement import Interval
from tests.diagnosis.examples import stage_time
from tests.diagnosis.made_reads import made_scaling

TIMES = (stage_time("Map of f", 0.030), stage_time("Batch", 0.010), stage_time("Source", 0.001))
MODEL = LoaderModel(
    (
        (StageCost(0.030, 0.001), True),
        (StageCost(0.010, 0.001), True),
        (StageCost(0.001, 0.001), True),
    ),
    workers=1,
    threads=0,
    cores=64,
)
LOADER = MeasuredLoader(MODEL, (0.041,) * 3)
COMPUTING = tuple((StageCost(work.wall_s, work.wall_s), True) for work, _ in MODEL.stages)
CROWDED = MeasuredLoader(replace(MODEL, stages=COMPUTING, cores=1), (0.041,) * 3)
ALONE = MeasuredLoader(replace(MODEL, workers=0), (0.041,) * 3)


def counts(
    known: MeasuredLoader, step_s: float | None = None, moved: MeasuredLoader | None = None
) -> list[int]:
    """Return the numbers of workers that are listed."""
    return [
        change.workers
        for change in list_changes(known, moved, TIMES, step_s)
        if change.workers is not None
    ]


def tried(
    known: MeasuredLoader = LOADER, step_s: float | None = None, can_omit: tuple[int, ...] = ()
) -> Change | None:
    """Return the change that is worth trying."""
    every = list(list_changes(known, None, TIMES, step_s))
    return choose_change(every, known.s_per_batch, step_s, can_omit)


@pytest.mark.parametrize(
    ("now", "listed"),
    [(0, [1, 2, 3, 4]), (1, [2, 3, 4]), (3, [1, 2, 4, 6]), (8, [1, 2, 3, 4, 9, 16])],
)
def test_other_counts_than_the_present_one_are_listed(now: int, listed: list[int]) -> None:
    """The first few, one more than now and twice as many are listed, but not the present number."""
    assert counts(MeasuredLoader(replace(MODEL, workers=now), (0.041,) * 3)) == listed


def test_as_many_as_feed_the_step_are_listed() -> None:
    """7 workers load in 41/7 = 5.86 ms, with 1.25 to spare for a step of 7.4 ms; 6 do not."""
    assert counts(LOADER, 0.0074) == [2, 3, 4, 7]


def test_a_step_that_no_workers_feed_adds_none() -> None:
    """No number of workers is added if the cores bound first."""
    stages = tuple((StageCost(0.040 * number, 0.040 * number), True) for number in (1, 0, 0))
    busy = MeasuredLoader(replace(MODEL, stages=stages, cores=2), (0.040,) * 3)
    assert counts(busy, 0.001) == [2, 3, 4]


def test_workers_are_predicted_from_the_measurement_of_one() -> None:
    """A loader without workers was measured with one worker."""
    moved = MeasuredLoader(replace(MODEL, workers=1), (0.060,) * 3)
    two = next(change for change in list_changes(ALONE, moved, TIMES, None) if change.workers == 2)
    assert two.load_s == pytest.approx(0.030)


def test_the_two_largest_stages_are_changed() -> None:
    """Each as if it were twice as fast, and as if it cost nothing."""
    changes = [made for made in list_changes(LOADER, None, TIMES, None) if "stage" in made.kind]
    assert [change.stage for change in changes] == [None, 0, None, 1]
    assert [change.load_s for change in changes] == pytest.approx([0.026, 0.011, 0.036, 0.031])
    assert ["Map of f" in change.name for change in changes] == [True, True, False, False]


def test_payload_changes_need_a_payload() -> None:
    """Sending fewer bytes is listed only if sending takes time."""
    heavy = MeasuredLoader(replace(MODEL, payload_send_s=0.040), (0.081,) * 3)
    kinds = {change.kind for change in list_changes(heavy, None, TIMES, None)}
    assert {"narrower-dtype", "no-transfer"} <= kinds
    none = next(
        change for change in list_changes(heavy, None, TIMES, None) if change.kind == "no-transfer"
    )
    assert none.load_s == pytest.approx(0.041)
    assert "no-transfer" not in {change.kind for change in list_changes(LOADER, None, TIMES, None)}


def test_half_a_batch_takes_half_the_time() -> None:
    """A smaller batch is made of fewer elements."""
    half = next(
        change
        for change in list_changes(LOADER, None, TIMES, None)
        if change.kind == "smaller-batch"
    )
    assert half.load_s == pytest.approx(0.041 / 2)


def test_every_change_has_its_prediction() -> None:
    """It has a headroom only if there is a step."""
    changes = {change.kind: change for change in list_changes(LOADER, None, TIMES, 0.041)}
    for change in changes.values():
        prediction = change.predict(0.041)
        assert (prediction.change, prediction.kind) == (change.name, change.kind)
        assert prediction.load_s_per_batch.median == change.load_s
        # A step on half the sequences takes another time.
        assert (prediction.headroom is None) is (change.kind == "smaller-batch")
    three = changes["workers"].predict(0.041)
    assert three.headroom is not None
    assert three.headroom.median == pytest.approx(4.0)
    assert changes["workers"].predict(None).headroom is None


def test_headroom_inverts_the_interval() -> None:
    """The longest load time leaves the least headroom; one that may be 0 leaves it unbounded."""
    assert divide(0.040, Interval(0.020, 0.010, 0.040, 3)) == Interval(2.0, 1.0, 4.0, 3)
    unbounded = divide(0.040, Interval(0.020, 0.0, float("inf"), 1))
    assert (unbounded.low, unbounded.high) == (0.0, float("inf"))


def test_the_fewest_workers_that_feed_the_step_are_tried() -> None:
    """Two would help too, but four feed it with room to spare."""
    change = tried(step_s=0.041 / 4 * 1.25)
    assert change is not None
    assert change.workers == 4


def test_more_workers_are_tried_even_where_none_feed_the_step() -> None:
    """The first number that helps is tried without a step, and if the step is never fed."""
    for step_s in (None, 1e-6):
        change = tried(step_s=step_s)
        assert change is not None
        assert change.workers == 2


def test_a_stage_is_left_out_where_workers_cannot_help() -> None:
    """The first stage that can be left out and is worth it is tried."""
    change = tried(CROWDED, can_omit=(1, 2))
    assert change is not None
    assert (change.kind, change.stage) == (WITHOUT_STAGE, 1)


def test_a_change_that_does_not_help_is_not_tried() -> None:
    """A stage must be removable, and its removal must help."""
    assert tried(CROWDED) is None
    assert tried(CROWDED, can_omit=(2,)) is None


def test_reader_threads_that_cost_are_given_up_first() -> None:
    """The prediction is what the single-thread run takes, and it is tried before workers."""
    known = MeasuredLoader(replace(MODEL, workers=0, threads=16), (0.098,) * 3)
    every = list(list_changes(known, None, TIMES, None, MeasuredLoader(MODEL, (0.041,) * 3)))
    change = choose_change(every, 0.098, None, (0, 1))
    assert change is not None
    assert change.kind == "no-threads"
    assert change.predict().load_s_per_batch.median == pytest.approx(0.041)
    assert "no-threads" not in {change.kind for change in list_changes(known, None, TIMES, None)}


@pytest.mark.parametrize(("with_one_s", "workers"), [(0.020, 1), (0.100, 3), (0.200, None)])
def test_workers_are_compared_with_the_unmodified_loader(
    with_one_s: float, workers: int | None
) -> None:
    """One worker may be faster than the unmodified loader, or much slower."""
    moved = MeasuredLoader(replace(MODEL, cores=3), (with_one_s,) * 3)
    change = choose_change(list(list_changes(ALONE, moved, TIMES, None)), 0.041, None, ())
    assert (change.workers if change else None) == workers


FEW = MeasuredLoader(
    LoaderModel(((StageCost(0.040, 0.0), True),), workers=1, threads=0, cores=8),
    (0.050, 0.060, 0.070),
)
TWO = replace(FEW.model, workers=2)


def test_the_model_gives_a_ratio_to_what_was_measured() -> None:
    """An error of the model for the unmodified loader does not get into a prediction."""
    predicted = FEW.predict(TWO, WORKERS)
    assert predicted.median == pytest.approx(0.060 / 2)
    assert predicted.n == 3


def test_spread_rounds_make_a_wide_interval() -> None:
    """The interval includes the median, and is the wider the more the rounds differ."""
    sure, unsure = (
        replace(FEW, rounds_s=rounds_s).predict(TWO, WORKERS)
        for rounds_s in ((0.060,) * 5, (0.040, 0.060, 0.090))
    )
    assert unsure.low < sure.low < sure.median < sure.high < unsure.high


@pytest.mark.parametrize("kind", [WORKERS, READS, WITHOUT_STAGE, "smaller-batch"])
def test_the_models_own_error_widens_the_interval(kind: str) -> None:
    """Rounds that agree exactly are no reason to be sure of a model, also if nothing changes."""
    exact = replace(FEW, rounds_s=(0.060,) * 9)
    for changed in (TWO, exact.model):
        predicted = exact.predict(changed, kind)
        assert predicted.low < 0.8 * predicted.median
        assert predicted.high > 1.25 * predicted.median


def test_one_round_leaves_a_prediction_open() -> None:
    """A single round gives no interval."""
    predicted = replace(FEW, rounds_s=(0.060,)).predict(TWO, WORKERS)
    assert (predicted.low, predicted.high) == (0.0, inf)


def slow_reads(
    workers: int = 0, threads: int = 4, reads: ReadScaling | None = None, buffer: int = 16
) -> MeasuredLoader:
    """Return a loader whose batches wait 400 ms for a storage, shared by its reads in flight."""
    model = LoaderModel(
        ((StageCost(0.400, 0.0, 0.400, 0.400), True),),
        workers=workers,
        threads=threads,
        cores=64,
        reads=reads or made_scaling(),
        read_buffer=buffer,
    )
    return MeasuredLoader(model, (model.s_per_batch(),) * 3)


def changes_of(loader: MeasuredLoader, kind: str) -> list[Change]:
    """Return the changes of a kind that are listed."""
    every = list_changes(loader, None, TIMES[:1], None)
    return [change for change in every if change.kind == kind]


@pytest.mark.parametrize(
    ("workers", "threads", "listed"),
    [
        (0, 0, [4, 16, 64]),
        (0, 4, [16, 64]),
        (0, 16, [4, 64]),
        (2, 4, [2, 8, 32]),
        (3, 4, [2, 6, 22]),
        (8, 1, [2, 8]),
    ],
)
def test_other_reads_in_flight_are_listed(workers: int, threads: int, listed: list[int]) -> None:
    """Those of all processes are 4, 16 and 64, or more if the workers do not divide them."""
    changes = changes_of(slow_reads(workers, threads), READS)
    assert [change.threads for change in changes] == listed
    for change in changes:
        in_flight = max(1, workers) * (change.threads or 0)
        options = f"(grain.ReadOptions(num_threads={change.threads}))"
        assert change.name == f"{in_flight} reads in flight {options}"
        assert change.changed.reads_in_flight == in_flight


def test_more_threads_read_further_ahead() -> None:
    """Four elements for each thread, or as many as before."""
    buffers = [change.changed.read_buffer for change in changes_of(slow_reads(), READS)]
    assert buffers == [64, 256]
    buffers = [change.changed.read_buffer for change in changes_of(slow_reads(buffer=99), READS)]
    assert buffers == [99, 256]


def test_four_times_the_reads_are_predicted_to_take_a_quarter() -> None:
    """A loader that waits for the latency, and nothing else, has its time divided."""
    to_16, to_64 = changes_of(slow_reads(), READS)
    assert to_16.load_s == pytest.approx(0.100 / 4, rel=0.02)
    assert to_64.load_s == pytest.approx(0.100 / 16, rel=0.02)


def test_more_reads_from_a_saturated_storage_are_predicted_to_gain_nothing() -> None:
    """Neither threads nor workers help, so that none is tried."""
    loader = slow_reads(reads=made_scaling((1.0, 4.0, 16.0), limit=BANDWIDTH))
    every = list(list_changes(loader, None, TIMES[:1], None))
    for change in every:
        if change.kind in (READS, "workers"):
            assert change.load_s == pytest.approx(0.100, rel=0.02)
    assert choose_change(every, 0.100, None, ()) is None


def test_reads_that_were_not_measured_are_not_changed() -> None:
    """No number of reads in flight and no size of records is predicted."""
    assert {READS, LARGER_RECORDS}.isdisjoint(
        change.kind for change in list_changes(LOADER, None, TIMES, None)
    )


def test_larger_records_save_the_latency() -> None:
    """Records of 8 times the size are an eighth of the reads; a bandwidth does not care."""
    (change,) = changes_of(slow_reads(), LARGER_RECORDS)
    assert change.name == "records of 8 times the size"
    assert change.load_s == pytest.approx(0.100 / 8, rel=0.02)
    assert not changes_of(slow_reads(reads=made_scaling(limit=BANDWIDTH)), LARGER_RECORDS)


@pytest.mark.parametrize(
    ("growth", "step_s", "threads"),
    [
        ((1.0, 1.0, 1.0), None, 64),
        # 64 reads gain less than a tenth over 16.
        ((1.0, 1.0, 3.8), None, 16),
        ((1.0, 1.0, 3.0), None, 64),
        # 16 take 25 ms, which is enough for the step.
        ((1.0, 1.0, 1.0), 0.030, 16),
        ((1.0, 1.0, 1.0), 0.020, 64),
    ],
)
def test_the_fewest_reads_near_the_best_are_tried(
    growth: tuple[float, ...], step_s: float | None, threads: int
) -> None:
    """Threads that gain next to nothing, or more than the step needs, are not worth it."""
    loader = slow_reads(reads=made_scaling(growth))
    changes = list(list_changes(loader, None, TIMES[:1], step_s))
    change = choose_change(changes, loader.s_per_batch, step_s, (0,))
    assert change is not None
    assert (change.kind, change.threads) == (READS, threads)
