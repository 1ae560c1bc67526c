"""Predictions of changes, and the choice of the one to try."""

from dataclasses import replace

import pytest

from netpipe.diagnosis.cost_model import LoaderModel, StageCost
from netpipe.diagnosis.diagnosis import Prediction, Verification
from netpipe.diagnosis.experiments.read_scaling import BANDWIDTH, ReadScaling
from netpipe.diagnosis.what_if import (
    READS,
    WITHOUT_STAGE,
    WORKERS,
    Change,
    MeasuredLoader,
    choose_change,
    find_enough_workers,
    list_changes,
)
from tests.diagnosis.examples import evidence, interval, stage_time, turns, with_workers_graph
from tests.diagnosis.made_reads import made_scaling

TIMES = (stage_time("Map of f", 0.030), stage_time("Batch", 0.010), stage_time("Source", 0.001))
WAITING = tuple((StageCost(wall_s, 0.001), True) for wall_s in (0.030, 0.010, 0.001))
COMPUTING = tuple((StageCost(work.wall_s, work.wall_s), True) for work, _ in WAITING)
MODEL = LoaderModel(WAITING, workers=1, threads=0, cores=64)
LOADER = MeasuredLoader(MODEL, 0.041)
CROWDED = MeasuredLoader(replace(MODEL, stages=COMPUTING, cores=1), 0.041)
ALONE = MeasuredLoader(replace(MODEL, workers=0), 0.041)


def list_all(
    loader: MeasuredLoader = LOADER,
    step_s: float | None = None,
    one_worker: MeasuredLoader | None = None,
    alone_s: float | None = None,
) -> list[Change]:
    """Return the changes that are listed."""
    return list(list_changes(loader, one_worker, TIMES, step_s, alone_s))


def counts(loader: MeasuredLoader, step_s: float | None = None) -> list[int]:
    """Return the numbers of workers that are listed."""
    return [change.workers for change in list_all(loader, step_s) if change.workers is not None]


def find(kind: str, loader: MeasuredLoader = LOADER) -> Change | None:
    """Return the first change of a kind that is listed."""
    return next((change for change in list_all(loader) if change.kind == kind), None)


def tried(
    loader: MeasuredLoader = LOADER,
    step_s: float | None = None,
    removable: tuple[int, ...] = (),
    one_worker: MeasuredLoader | None = None,
) -> tuple[str, int | None] | None:
    """Return the kind of the change to try, with its number of workers or its stage."""
    changes = list_all(loader, step_s, one_worker)
    change = choose_change(changes, loader.s_per_batch, step_s, removable)
    if change is None:
        return None
    return change.kind, change.stage if change.workers is None else change.workers


@pytest.mark.parametrize(
    ("now", "listed"),
    [(0, [1, 2, 3, 4]), (1, [2, 3, 4]), (3, [1, 2, 4, 6]), (8, [1, 2, 3, 4, 9, 16])],
)
def test_other_counts_of_workers_are_listed(now: int, listed: list[int]) -> None:
    """The first few, one more than now and twice as many are listed, without the present number."""
    assert counts(MeasuredLoader(replace(MODEL, workers=now), 0.041)) == listed


def test_enough_workers_for_the_step_are_listed() -> None:
    """7 workers load in 5.86 ms, with 1.25 to spare for a step of 7.4 ms; cores may bound first."""
    assert counts(LOADER, 0.0074) == [2, 3, 4, 7]
    stages = tuple((StageCost(0.040 * number, 0.040 * number), True) for number in (1, 0, 0))
    busy = MeasuredLoader(replace(MODEL, stages=stages, cores=2), 0.040)
    assert counts(busy, 0.001) == [2, 3, 4]


def test_workers_are_predicted_from_the_measurement_of_one() -> None:
    """A loader without workers was measured with one worker."""
    one_worker = MeasuredLoader(MODEL, 0.060)
    changes = list_all(ALONE, one_worker=one_worker)
    two = next(change for change in changes if change.workers == 2)
    assert two.load_s == pytest.approx(0.030)


def test_the_two_largest_stages_are_changed() -> None:
    """Each is predicted at no cost."""
    changes = [change for change in list_all() if change.kind == WITHOUT_STAGE]
    assert [change.stage for change in changes] == [0, 1]
    assert [change.load_s for change in changes] == pytest.approx([0.011, 0.031])
    assert [change.name for change in changes] == ["Map of f at no cost", "Batch at no cost"]


@pytest.mark.parametrize(
    ("after_s", "expected"),
    [(0.094, "faster"), (0.096, "unclear"), (0.105, "unclear"), (0.106, "slower")],
)
def test_a_change_has_its_direction(after_s: float, expected: str) -> None:
    """Within 5% of the time as it is, the direction is unclear."""
    change = Change("2 workers", WORKERS, after_s, workers=2)
    assert change.predict(0.100) == Prediction("2 workers", WORKERS, expected)


@pytest.mark.parametrize(
    ("loader", "step_s", "removable", "expected"),
    [
        # Two would help too, but four feed the step with room to spare.
        (LOADER, 0.041 / 4 * 1.25, (), (WORKERS, 4)),
        (LOADER, None, (), (WORKERS, 2)),
        (LOADER, 1e-6, (), (WORKERS, 2)),
        # Workers cannot help on a single core.
        (CROWDED, None, (1, 2), (WITHOUT_STAGE, 1)),
        (CROWDED, None, (), None),
        (CROWDED, None, (2,), None),
    ],
)
def test_the_first_useful_change_is_tried(
    loader: MeasuredLoader,
    step_s: float | None,
    removable: tuple[int, ...],
    expected: tuple[str, int] | None,
) -> None:
    """Enough workers are tried first, then more workers, then a stage that can be left out."""
    assert tried(loader, step_s, removable) == expected


@pytest.mark.parametrize(
    ("one_s", "expected"), [(0.020, (WORKERS, 1)), (0.100, (WORKERS, 3)), (0.200, None)]
)
def test_workers_are_compared_with_the_unmodified_loader(
    one_s: float, expected: tuple[str, int] | None
) -> None:
    """One worker may be faster than the unmodified loader, or much slower."""
    one_worker = MeasuredLoader(replace(MODEL, cores=3), one_s)
    assert tried(ALONE, one_worker=one_worker) == expected


def test_reader_threads_that_cost_time_are_removed_first() -> None:
    """The prediction is the time of the single-thread run, and is tried before workers."""
    loader = MeasuredLoader(replace(MODEL, workers=0, threads=16), 0.098)
    changes = list_all(loader, alone_s=0.041)
    change = choose_change(changes, 0.098, None, (0, 1))
    assert change is not None
    assert change.kind == "no-threads"
    assert change.load_s == 0.041
    assert find("no-threads", loader) is None


@pytest.mark.parametrize(
    ("threads", "name"), [(0, "no workers"), (16, "no workers and no reader threads")]
)
def test_workers_that_cost_time_are_removed_first(threads: int, name: str) -> None:
    """A loader that is faster in one thread is tried without workers before it gets more."""
    loader = MeasuredLoader(replace(MODEL, workers=2, threads=threads), 0.080)
    changes = list_all(loader, alone_s=0.027)
    change = choose_change(changes, 0.080, None, (0, 1))
    assert change == Change(name, WORKERS, 0.027, workers=0)
    assert 0 not in counts(loader)


@pytest.mark.parametrize(
    ("step_s", "is_rebuilt", "tried_s", "enough"),
    [
        (None, True, None, None),
        (0.100, True, None, 0),  # one thread takes 40 ms
        (0.030, True, None, 2),  # two workers take 22 ms
        (0.100, False, None, 2),
        (0.015, True, None, 4),  # four are predicted to take 11 ms
        (0.015, True, 0.014, None),
        (0.001, True, None, None),
        (0.010, True, 0.007, 4),
    ],
)
def test_the_fewest_workers_that_feed_the_step(
    step_s: float | None, is_rebuilt: bool, tried_s: float | None, enough: int | None
) -> None:
    """They may be none, those that the loader has, or a predicted or tried number."""
    measured = evidence(
        graph=with_workers_graph(2),
        is_rebuilt=is_rebuilt,
        variants=turns(unmodified=0.022),
        scaling=turns(single_thread=0.040),
        load_s=interval(0.022),
    )
    changes = [Change("4 workers", WORKERS, 0.011, workers=4)]
    tried = None
    if tried_s is not None:
        tried = Verification("4 workers", WORKERS, interval(tried_s), interval(0.022), "")
    assert find_enough_workers(changes, measured, step_s, tried) == enough


def test_a_loader_that_was_tried_without_workers_counts_as_tried() -> None:
    """One thread took 40 ms before, and 70 ms in the trial."""
    measured = evidence(
        graph=with_workers_graph(2),
        is_rebuilt=True,
        variants=turns(unmodified=0.022),
        scaling=turns(single_thread=0.040),
        load_s=interval(0.022),
    )
    changes = [Change("no workers", WORKERS, 0.040, workers=0)]
    tried = Verification("no workers", WORKERS, interval(0.070), interval(0.022), "")
    assert find_enough_workers(changes, measured, 0.060, None) == 0
    assert find_enough_workers(changes, measured, 0.060, tried) == 2


def test_time_that_no_stage_accounts_for_remains() -> None:
    """Late wake-ups stay without a stage; a loader faster than its model has none."""
    late = MeasuredLoader(MODEL, 0.082)
    assert late.gain_fraction(0) == pytest.approx(0.030 / 0.082)
    assert MeasuredLoader(MODEL, 0.020).gain_fraction(0) == pytest.approx(0.030 / 0.041)


def slow_reads(
    workers: int = 0, threads: int = 4, reads: ReadScaling | None = None
) -> MeasuredLoader:
    """Return a loader whose batches wait 400 ms for a storage, shared by its reads in flight."""
    model = LoaderModel(
        ((StageCost(0.400, 0.0, 0.400, 0.400), True),),
        workers=workers,
        threads=threads,
        cores=64,
        reads=reads or made_scaling(),
    )
    return MeasuredLoader(model, model.s_per_batch())


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
        (16, 4, [1]),
    ],
)
def test_other_reads_in_flight_are_listed(workers: int, threads: int, listed: list[int]) -> None:
    """All processes together have 4, 16 and 64, or more if the workers do not divide them."""
    changes = changes_of(slow_reads(workers, threads), READS)
    assert [change.threads for change in changes] == listed
    for change in changes:
        in_flight = max(1, workers) * (change.threads or 0)
        options = f"(grain.ReadOptions(num_threads={change.threads}))"
        assert change.name == f"{in_flight} reads in flight {options}"


def test_reads_that_wait_for_latency_divide_the_time() -> None:
    """Four times the reads take a quarter."""
    to_16, to_64 = changes_of(slow_reads(), READS)
    assert to_16.load_s == pytest.approx(0.100 / 4, rel=0.02)
    assert to_64.load_s == pytest.approx(0.100 / 16, rel=0.02)


def test_a_saturated_bandwidth_gives_nothing_to_more_reads() -> None:
    """Neither threads nor workers help, so none is tried."""
    loader = slow_reads(reads=made_scaling((1.0, 4.0, 16.0), limit=BANDWIDTH))
    every = list(list_changes(loader, None, TIMES[:1], None))
    for change in every:
        if change.kind in (READS, "workers"):
            assert change.load_s == pytest.approx(0.100, rel=0.02)
    assert choose_change(every, 0.100, None, ()) is None


def test_unmeasured_reads_are_not_changed() -> None:
    """No number of reads in flight is predicted."""
    assert find(READS) is None


@pytest.mark.parametrize(
    ("growth", "step_s", "threads"),
    [
        ((1.0, 1.0, 1.0), None, 64),
        # 64 reads gain less than a tenth over 16.
        ((1.0, 1.0, 3.8), None, 16),
        ((1.0, 1.0, 3.0), None, 64),
        # 16 reads take 25 ms, which feeds a step of 35 ms, but hardly one of 30 ms.
        ((1.0, 1.0, 1.0), 0.035, 16),
        ((1.0, 1.0, 1.0), 0.030, 64),
    ],
)
def test_the_fewest_reads_near_the_best_are_tried(
    growth: tuple[float, ...], step_s: float | None, threads: int
) -> None:
    """Threads that gain next to nothing, or more than the step needs, are not tried."""
    loader = slow_reads(reads=made_scaling(growth))
    changes = list(list_changes(loader, None, TIMES[:1], step_s))
    change = choose_change(changes, loader.s_per_batch, step_s, (0,))
    assert change is not None
    assert (change.kind, change.threads) == (READS, threads)
