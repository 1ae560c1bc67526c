"""The bounds of a loader, computed from its parts."""

from dataclasses import replace

import pytest

from netpipe.diagnosis.cost_model import (
    LoaderModel,
    StageCost,
    with_batch_size,
    with_payload,
    with_stage_times,
)
from tests.diagnosis.made_reads import SLOW_READS, made_scaling, spread_reads

READ, MAP = StageCost(0.010, 0.002), StageCost(0.030, 0.030)
ALONE = LoaderModel(((READ, True), (MAP, True)), workers=0, threads=0, cores=8)
MOVED = replace(ALONE, workers=2, send_s=0.002, receive_s=0.001)


def test_work_adds_up() -> None:
    """Costs add up, and a factor multiplies all of a cost."""
    assert StageCost(1, 2, 3) + StageCost(10, 20, 30) == StageCost(11, 22, 33)
    assert StageCost(1, 2, 3) * 2 == StageCost(2, 4, 6)


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


def test_batches_of_half_the_size() -> None:
    """Stages and payload shrink with a batch; the fixed cost of sending does not."""
    half = with_batch_size(replace(MOVED, payload_send_s=0.004, payload_receive_s=0.006), 0.5)
    assert half.stages[1][0] == StageCost(0.015, 0.015)
    assert (half.payload_send_s, half.payload_receive_s) == (0.002, 0.003)
    assert (half.send_s, half.receive_s) == (0.002, 0.001)


def test_one_stage_changes_alone() -> None:
    """Removing a stage does not change the others."""
    absent = with_stage_times(MOVED, 1, 0.0)
    assert absent.stages == ((READ, True), (StageCost(), True))


def test_a_payload_costs_both_sides() -> None:
    """A payload costs time of the worker and of the training process."""
    heavy = replace(MOVED, payload_send_s=0.010, payload_receive_s=0.050)
    assert heavy.worker_cost.wall_s == pytest.approx(0.052)
    assert heavy.trainer_cost.wall_s == heavy.trainer_cost.cpu_s == pytest.approx(0.051)
    assert with_payload(heavy, 0.0) == replace(heavy, payload_send_s=0.0, payload_receive_s=0.0)


@pytest.mark.parametrize(("workers", "without_s"), [(0, 0.030), (1, 0.030), (2, 0.025)])
def test_overhead_remains_without_a_stage(workers: int, without_s: float) -> None:
    """Time that no stage accounts for remains without a stage, and shrinks with the batch."""
    stages = ((StageCost(0.010, 0.0), True), (StageCost(0.020, 0.0), True))
    parts = LoaderModel(stages, workers=workers, threads=0, cores=64)
    measured_s = 0.040 if workers < 2 else 0.030
    held = parts.calibrated_to(measured_s)
    assert held.s_per_batch() == pytest.approx(measured_s)
    assert with_stage_times(held, 0, 0.0).s_per_batch() == pytest.approx(without_s)
    assert with_batch_size(held, 0.5).s_per_batch() == pytest.approx(measured_s / 2)


def test_workers_share_the_overhead() -> None:
    """The time that no stage accounts for is shared by more workers."""
    held = LoaderModel(
        ((StageCost(0.010, 0.0), True),), workers=1, threads=0, cores=64
    ).calibrated_to(0.014)
    assert replace(held, workers=2).s_per_batch() == pytest.approx(0.007)


def test_overhead_is_not_negative() -> None:
    """The overhead is never negative."""
    parts = LoaderModel(((StageCost(0.100, 0.0), True),), workers=1, threads=0, cores=4)
    assert parts.calibrated_to(0.050) == parts


def test_busy_cores_leave_no_overhead() -> None:
    """Other programs may have used the cores too, so no overhead is added."""
    crowded = LoaderModel(((StageCost(0.100, 0.100), True),), workers=4, threads=0, cores=1)
    assert crowded.limiting_resource() == "cores"
    assert crowded.calibrated_to(0.200) == crowded


def test_waiting_is_scaled_alone() -> None:
    """Computing and other waiting stay."""
    cost = StageCost(4.0, 1.0, 3.0, 2.0)
    assert cost.with_waiting(0.5) == StageCost(3.0, 1.0, 2.0, 1.0)
    assert cost.with_waiting(2.0) == StageCost(6.0, 1.0, 5.0, 4.0)
    assert cost.with_waiting(1.0) == cost
    assert cost.with_waiting(1.0, 0.5) == StageCost(3.5, 0.5, 2.5, 2.0)


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


def test_threads_have_their_measured_cpu_time() -> None:
    """The CPU time of reader threads is the measured one, not that of the single-thread run."""
    reads = replace(made_scaling(), alone_cpu_s=0.010)
    tried = {n: [replace(read, cpu_s=0.006) for read in found] for n, found in reads.levels.items()}
    stages = ((StageCost(0.012, 0.010, 0.012, 0.002), True),)
    model = LoaderModel(stages, workers=0, threads=64, cores=8, reads=replace(reads, levels=tried))
    assert model.s_per_batch() == pytest.approx(0.006)
    assert replace(model, threads=0).s_per_batch() == pytest.approx(0.012)


def test_a_storage_slows_only_waiting() -> None:
    """The CPU time in the same threads does not grow."""
    both = StageCost(0.040, 0.010, 0.040, 0.030), True
    read = replace(
        SLOW_READS, stages=(both,), reads=made_scaling((3.0, 3.0, 3.0)), gil_fraction=0.0
    )
    assert read.s_per_batch() == pytest.approx((0.010 + 3 * 0.030) / 4, rel=0.01)


def test_reads_of_many_lengths_lose_time_in_order() -> None:
    """A small buffer is soon full behind a slow element."""
    reads = made_scaling(reads=spread_reads(0, 2000, sigma=1.0))
    small, large = (
        replace(SLOW_READS, threads=4, reads=reads, read_buffer=buffer) for buffer in (4, 1000)
    )
    assert small.s_per_batch() > 1.5 * large.s_per_batch()


def test_slow_reads_leave_no_overhead() -> None:
    """More reads in flight share that time, unlike an overhead of the process."""
    assert SLOW_READS.calibrated_to(0.020) == SLOW_READS
    assert replace(SLOW_READS, reads=None).calibrated_to(0.020) != SLOW_READS


def test_a_saturated_storage_is_calibrated() -> None:
    """More reads do not change its time; without saturation the growth stays 1."""
    saturated = replace(SLOW_READS, reads=made_scaling((4.0, 16.0, 64.0)))
    shown = saturated.calibrated_to(0.060)
    for threads in (4, 16, 64):
        assert replace(shown, threads=threads).s_per_batch() == pytest.approx(0.060, rel=0.02)
    later = replace(SLOW_READS, threads=64, reads=made_scaling((1.0, 1.0, 4.0)))
    assert later.calibrated_to(0.005).reads.growth[16] == 1.0  # type: ignore[union-attr]
