"""What bounds a loader, as arithmetic over its parts."""

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
    """Costs add up, and a factor multiplies all of it."""
    assert StageCost(1, 2, 3) + StageCost(10, 20, 30) == StageCost(11, 22, 33)
    assert StageCost(1, 2, 3) * 2 == StageCost(2, 4, 6)


def test_without_workers_all_is_done_where_the_training_is() -> None:
    """One thread takes the sum of all stages, those that could move too."""
    assert ALONE.trainer_cost == StageCost(0.040, 0.032)
    assert ALONE.s_per_batch() == pytest.approx(0.040)
    assert ALONE.limiting_resource() == "trainer"


def test_workers_share_batches() -> None:
    """Each worker makes whole batches of its own, and sends them."""
    assert MOVED.worker_cost.wall_s == pytest.approx(0.042)
    assert MOVED.s_per_batch() == pytest.approx(0.042 / 2)
    assert MOVED.limiting_resource() == "workers"


def test_what_cannot_move_stays_behind() -> None:
    """A stage behind the workers is done by the process that trains, which receives as well."""
    behind = replace(MOVED, stages=((READ, True), (MAP, False)))
    assert behind.worker_cost.wall_s == pytest.approx(0.012)
    assert behind.s_per_batch() == pytest.approx(0.031)
    assert behind.limiting_resource() == "trainer"


def test_a_process_that_only_receives_bounds_too() -> None:
    """However many workers there are, each batch is received by one process."""
    assert replace(MOVED, workers=100).bounds_s()["trainer"] == pytest.approx(0.001)


def test_cores_bound_what_computes() -> None:
    """Workers beyond the cores add nothing where a batch needs the CPU."""
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
    """No more workers compute at a time than there are cores."""
    crowd = replace(MOVED, stages=((MAP, True),), send_s=0.0, contention=0.1, cores=2, workers=4)
    assert crowd.bounds_s()["workers"] == pytest.approx(0.030 * 1.1 / 4)


@pytest.mark.parametrize(
    ("gil_fraction", "s_per_batch"), [(0.0, 0.010), (0.5, 0.016), (1.0, 0.032)]
)
def test_threads_read_ahead_under_one_lock(gil_fraction: float, s_per_batch: float) -> None:
    """Threads share what they work on, the rest goes on beside it, and the lock is one for all."""
    threaded = (StageCost(0.010, 0.002, 0.010), True), (StageCost(0.030, 0.030, 0.030), True)
    parts = replace(ALONE, stages=threaded, threads=4, gil_fraction=gil_fraction)
    assert parts.s_per_batch() == pytest.approx(s_per_batch)


def test_what_no_thread_works_on_takes_its_time() -> None:
    """A stage behind the threads is not divided by them."""
    parts = replace(
        ALONE, stages=((StageCost(0.040, 0, 0.040), True), (StageCost(0.025, 0), True)), threads=16
    )
    assert parts.s_per_batch() == pytest.approx(0.025)


def test_nothing_takes_some_time() -> None:
    """A loader without stages has a time that can be divided by."""
    assert LoaderModel((), 0, 0, 1).s_per_batch() > 0


def test_a_batch_of_half_the_size_is_half_of_all_that_is_of_its_size() -> None:
    """Stages and payload shrink with a batch, what sending itself takes does not."""
    half = with_batch_size(replace(MOVED, payload_send_s=0.004, payload_receive_s=0.006), 0.5)
    assert half.stages[1][0] == StageCost(0.015, 0.015)
    assert (half.payload_send_s, half.payload_receive_s) == (0.002, 0.003)
    assert (half.send_s, half.receive_s) == (0.002, 0.001)


def test_one_stage_changes_alone() -> None:
    """A stage that is absent takes nothing, and the others what they took."""
    absent = with_stage_times(MOVED, 1, 0.0)
    assert absent.stages == ((READ, True), (StageCost(), True))


def test_a_payload_is_paid_on_both_sides() -> None:
    """What is sent costs the worker, and the process that trains."""
    heavy = replace(MOVED, payload_send_s=0.010, payload_receive_s=0.050)
    assert heavy.worker_cost.wall_s == pytest.approx(0.052)
    assert heavy.trainer_cost.wall_s == heavy.trainer_cost.cpu_s == pytest.approx(0.051)
    assert with_payload(heavy, 0.0) == replace(heavy, payload_send_s=0.0, payload_receive_s=0.0)


@pytest.mark.parametrize(("workers", "without_s"), [(0, 0.030), (1, 0.030), (2, 0.025)])
def test_what_no_stage_accounts_for_stays_without_one(workers: int, without_s: float) -> None:
    """A loader that takes longer than its stages goes on doing so; its workers share the rest."""
    stages = ((StageCost(0.010, 0.0), True), (StageCost(0.020, 0.0), True))
    parts = LoaderModel(stages, workers=workers, threads=0, cores=64)
    measured_s = 0.040 if workers < 2 else 0.030
    held = parts.calibrated_to(measured_s)
    assert held.s_per_batch() == pytest.approx(measured_s)
    assert with_stage_times(held, 0, 0.0).s_per_batch() == pytest.approx(without_s)
    assert with_batch_size(held, 0.5).s_per_batch() == pytest.approx(measured_s / 2)


def test_a_rest_is_shared_by_more_workers() -> None:
    """It is time of a worker, as its stages are."""
    held = LoaderModel(
        ((StageCost(0.010, 0.0), True),), workers=1, threads=0, cores=64
    ).calibrated_to(0.014)
    assert replace(held, workers=2).s_per_batch() == pytest.approx(0.007)


def test_stages_that_took_longer_when_they_were_timed_leave_no_rest() -> None:
    """A loader cannot have less than nothing beside its stages."""
    parts = LoaderModel(((StageCost(0.100, 0.0), True),), workers=1, threads=0, cores=4)
    assert parts.calibrated_to(0.050) == parts


def test_cores_that_are_used_up_leave_no_rest() -> None:
    """Others may have used them too, and would not when more were there."""
    crowded = LoaderModel(((StageCost(0.100, 0.100), True),), workers=4, threads=0, cores=1)
    assert crowded.limiting_resource() == "cores"
    assert crowded.calibrated_to(0.200) == crowded


def test_less_waiting_is_less_of_the_time_that_threads_share() -> None:
    """What is computed stays, and so does what waits in one thread."""
    cost = StageCost(4.0, 1.0, 3.0, 2.0)
    assert cost.with_waiting(0.5) == StageCost(3.0, 1.0, 2.0, 1.0)
    assert cost.with_waiting(2.0) == StageCost(6.0, 1.0, 5.0, 4.0)
    assert cost.with_waiting(1.0) == cost
    assert cost.with_waiting(1.0, 0.5) == StageCost(3.5, 0.5, 2.5, 2.0)


@pytest.mark.parametrize(
    ("workers", "threads", "in_flight"), [(0, 0, 1), (0, 4, 4), (2, 0, 2), (2, 4, 8)]
)
def test_workers_multiply_the_reads_in_flight(workers: int, threads: int, in_flight: int) -> None:
    """Each has its own threads, and reads by itself without them."""
    read = replace(SLOW_READS, workers=workers, threads=threads)
    assert read.reads_in_flight == in_flight
    assert read.s_per_batch() == pytest.approx(0.040 / in_flight, rel=0.01)


def test_four_times_the_reads_of_a_latency_take_a_quarter() -> None:
    """Reads that nothing limits are as fast together as alone."""
    assert SLOW_READS.s_per_batch() == pytest.approx(0.010, rel=0.01)
    more = replace(SLOW_READS, threads=16)
    assert more.s_per_batch() == pytest.approx(0.0025, rel=0.01)


@pytest.mark.parametrize(("workers", "threads"), [(0, 16), (0, 64), (4, 4), (4, 64)])
def test_a_saturated_storage_gives_nothing_more(workers: int, threads: int) -> None:
    """Each read takes longer by as much as there are more of them, in whichever process."""
    saturated = made_scaling((1.0, 4.0, 16.0))
    read = replace(SLOW_READS, reads=saturated, workers=workers, threads=threads)
    assert read.s_per_batch() == pytest.approx(0.010, rel=0.02)


def test_threads_compute_as_long_as_those_that_were_tried() -> None:
    """Where Python's lock limits 64 threads, a thread alone takes another CPU time."""
    reads = replace(made_scaling(), alone_cpu_s=0.010)
    tried = {n: [replace(read, cpu_s=0.006) for read in found] for n, found in reads.levels.items()}
    stages = ((StageCost(0.012, 0.010, 0.012, 0.002), True),)
    model = LoaderModel(stages, workers=0, threads=64, cores=8, reads=replace(reads, levels=tried))
    assert model.s_per_batch() == pytest.approx(0.006)
    assert replace(model, threads=0).s_per_batch() == pytest.approx(0.012)


def test_a_storage_slows_only_what_waits() -> None:
    """What is computed in the same threads takes as long as before."""
    both = StageCost(0.040, 0.010, 0.040, 0.030), True
    read = replace(
        SLOW_READS, stages=(both,), reads=made_scaling((3.0, 3.0, 3.0)), gil_fraction=0.0
    )
    assert read.s_per_batch() == pytest.approx((0.010 + 3 * 0.030) / 4, rel=0.01)


def test_reads_of_many_lengths_lose_time_in_order() -> None:
    """A buffer of as many elements as threads is soon full behind a slow one."""
    reads = made_scaling(reads=spread_reads(0, 2000, sigma=1.0))
    small, large = (
        replace(SLOW_READS, threads=4, reads=reads, read_buffer=buffer) for buffer in (4, 1000)
    )
    assert small.s_per_batch() > 1.5 * large.s_per_batch()


def test_reads_that_are_slower_than_expected_leave_no_rest() -> None:
    """More reads in flight share that time too, which an overhead of the process would not be."""
    assert SLOW_READS.calibrated_to(0.020) == SLOW_READS
    assert replace(SLOW_READS, reads=None).calibrated_to(0.020) != SLOW_READS


def test_a_saturated_storage_is_as_fast_as_the_loader_shows() -> None:
    """However many reads there are, since it gives no more; an idle one keeps its growth of 1."""
    saturated = replace(SLOW_READS, reads=made_scaling((4.0, 16.0, 64.0)))
    shown = saturated.calibrated_to(0.060)
    for threads in (4, 16, 64):
        assert replace(shown, threads=threads).s_per_batch() == pytest.approx(0.060, rel=0.02)
    later = replace(SLOW_READS, threads=64, reads=made_scaling((1.0, 1.0, 4.0)))
    assert later.calibrated_to(0.005).reads.growth[16] == 1.0  # type: ignore[union-attr]
