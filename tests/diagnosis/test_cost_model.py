"""The bounds of a loader, computed from its parts."""

from dataclasses import replace

import pytest

from netpipe.diagnosis.cost_model import LoaderModel, StageCost, remove_stage
from tests.diagnosis.made_reads import SLOW_READS, made_scaling

READ, MAP = StageCost(0.010, 0.002), StageCost(0.030, 0.030)
ALONE = LoaderModel(((READ, True), (MAP, True)), workers=0, threads=0, cores=8)
MOVED = replace(ALONE, workers=2, send_s=0.002, receive_s=0.001)


def test_work_adds_up() -> None:
    """Costs add up."""
    assert StageCost(1, 2, 3) + StageCost(10, 20, 30) == StageCost(11, 22, 33)


def test_without_workers_the_stages_add_up() -> None:
    """A single thread takes the sum of all stages."""
    assert ALONE.trainer_cost == StageCost(0.040, 0.032)
    assert ALONE.s_per_batch() == pytest.approx(0.040)
    assert ALONE.limiting_resource() == "trainer"


def test_workers_share_batches() -> None:
    """Each worker makes and sends whole batches."""
    assert MOVED.worker_cost.wall_s == pytest.approx(0.042)
    assert MOVED.s_per_batch() == pytest.approx(0.042 / 2)
    assert MOVED.limiting_resource() == "workers"


def test_stages_behind_the_workers_stay() -> None:
    """A stage behind the workers takes time of the training process, which also receives."""
    behind = replace(MOVED, stages=((READ, True), (MAP, False)))
    assert behind.worker_cost.wall_s == pytest.approx(0.012)
    assert behind.s_per_batch() == pytest.approx(0.031)
    assert behind.limiting_resource() == "trainer"


def test_receiving_bounds_the_rate() -> None:
    """One process receives each batch, however many workers there are."""
    assert replace(MOVED, workers=100).bounds_s()["trainer"] == pytest.approx(0.001)


def test_cores_bound_computing() -> None:
    """Workers beyond the cores do not help if a batch needs the CPU."""
    few = replace(MOVED, workers=8, cores=2)
    assert few.s_per_batch() == pytest.approx((0.032 + 0.002 + 0.001) / 2)
    assert few.limiting_resource() == "cores"


def test_computing_workers_slow_each_other() -> None:
    """Contention grows with the workers that compute, not with those that wait."""
    both = replace(MOVED, stages=((MAP, True),), send_s=0.0, contention=0.5)
    assert both.bounds_s()["workers"] == pytest.approx(0.030 * 1.5 / 2)
    waits = replace(both, stages=((StageCost(0.030, 0.0), True),))
    assert waits.bounds_s()["workers"] == pytest.approx(0.030 / 2)


def test_contention_ends_with_the_cores() -> None:
    """At most one worker per core computes at a time."""
    crowd = replace(MOVED, stages=((MAP, True),), send_s=0.0, contention=0.1, cores=2, workers=4)
    assert crowd.bounds_s()["workers"] == pytest.approx(0.030 * 1.1 / 4)


@pytest.mark.parametrize(
    ("gil_fraction", "s_per_batch"), [(0.0, 0.010), (0.5, 0.016), (1.0, 0.032)]
)
def test_threads_read_ahead_under_one_lock(gil_fraction: float, s_per_batch: float) -> None:
    """Threads share their stages, other stages run beside them, and all share one lock."""
    threaded = (StageCost(0.010, 0.002, 0.010), True), (StageCost(0.030, 0.030, 0.030), True)
    parts = replace(ALONE, stages=threaded, threads=4, gil_fraction=gil_fraction)
    assert parts.s_per_batch() == pytest.approx(s_per_batch)


def test_other_stages_are_not_threaded() -> None:
    """A stage behind the threads is not divided by them."""
    parts = replace(
        ALONE, stages=((StageCost(0.040, 0, 0.040), True), (StageCost(0.025, 0), True)), threads=16
    )
    assert parts.s_per_batch() == pytest.approx(0.025)


def test_no_stages_take_some_time() -> None:
    """The time of a loader without stages is not 0."""
    assert LoaderModel((), 0, 0, 1).s_per_batch() > 0


def test_one_stage_changes_alone() -> None:
    """Removing a stage does not change the others."""
    absent = remove_stage(MOVED, 1)
    assert absent.stages == ((READ, True), (StageCost(), True))


def test_waiting_is_scaled_alone() -> None:
    """Computing and other waiting stay."""
    cost = StageCost(4.0, 1.0, 3.0, 2.0)
    assert cost.with_waiting(0.5) == StageCost(3.0, 1.0, 2.0, 1.0)
    assert cost.with_waiting(2.0) == StageCost(6.0, 1.0, 5.0, 4.0)
    assert cost.with_waiting(1.0) == cost


@pytest.mark.parametrize(
    ("workers", "threads", "in_flight"), [(0, 0, 1), (0, 4, 4), (2, 0, 2), (2, 4, 8)]
)
def test_workers_multiply_the_reads_in_flight(workers: int, threads: int, in_flight: int) -> None:
    """Each worker has its own threads, and reads by itself without them."""
    read = replace(SLOW_READS, workers=workers, threads=threads)
    assert read.reads_in_flight == in_flight
    assert read.s_per_batch() == pytest.approx(0.040 / in_flight, rel=0.01)


@pytest.mark.parametrize(("workers", "threads"), [(0, 16), (0, 64), (4, 4), (4, 64)])
def test_a_saturated_storage_gives_nothing_more(workers: int, threads: int) -> None:
    """The time of a read grows with their number, in any process."""
    saturated = made_scaling((1.0, 4.0, 16.0))
    read = replace(SLOW_READS, reads=saturated, workers=workers, threads=threads)
    assert read.s_per_batch() == pytest.approx(0.010, rel=0.02)


def test_a_storage_slows_only_waiting() -> None:
    """The CPU time in the same threads does not grow."""
    both = StageCost(0.040, 0.010, 0.040, 0.030), True
    read = replace(
        SLOW_READS, stages=(both,), reads=made_scaling((3.0, 3.0, 3.0)), gil_fraction=0.0
    )
    assert read.s_per_batch() == pytest.approx((0.010 + 3 * 0.030) / 4, rel=0.01)
