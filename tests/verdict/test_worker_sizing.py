"""How many workers and cores keep a step fed."""

from dataclasses import replace

import pytest

from netpipe.results.measurement import Finding, Rounds
from netpipe.verdict.decision import judge
from netpipe.verdict.worker_sizing import cores_needed, enough_workers, workers_needed
from tests.measurements import HOST, make_measurement


@pytest.mark.parametrize(
    ("load_s", "step_s", "processes", "needed"),
    [
        (0.010, 0.030, 0, 1),
        (0.010, 0.030, 1, 1),
        (0.030, 0.030, 1, 2),
        (0.030, 0.030, 2, 3),
        (0.100, 0.030, 2, 9),
        (1e-9, 0.030, 0, 1),
        (0.050, 0.030, 0, 3),
    ],
)
def test_workers_follow_from_littles_law(
    load_s: float, step_s: float, processes: int, needed: int
) -> None:
    """A batch occupies a worker for L times the workers; use is 80%, the minimum one worker."""
    measurement = make_measurement(load_s=load_s, step_s=step_s, loader_processes=processes)
    measurement = replace(measurement, host=replace(HOST, cores=16))
    assert workers_needed(measurement) == needed


def test_workers_that_wait_for_cores_count_their_cpu_time() -> None:
    """If workers outnumber the cores and saturate them, a batch takes its CPU time."""
    many = make_measurement(load_s=0.020, step_s=0.030, load_cpu_s=0.040, loader_processes=8)
    assert workers_needed(many) == 2
    at_home = replace(many, host=replace(HOST, cores=8))
    assert workers_needed(at_home) == 7


def test_workers_that_wait_for_storage_count_their_waits() -> None:
    """If workers outnumber the cores but leave them idle, a batch takes its latency."""
    waiting = make_measurement(load_s=0.010, step_s=0.008, load_cpu_s=0.005, loader_processes=64)
    waiting = replace(waiting, host=replace(HOST, cores=8))
    assert workers_needed(replace(waiting, host=replace(HOST, cores=100))) == 100
    assert workers_needed(waiting) is None


def test_cores_are_cpu_time_over_step_time() -> None:
    """Loading with 90 ms of CPU time per step of 30 ms keeps three cores busy."""
    assert cores_needed(make_measurement(load_cpu_s=0.090, step_s=0.030)) == pytest.approx(3)


def test_without_cpu_times_cores_are_unknown() -> None:
    """Without a CPU time, L alone gives the workers, however many there are."""
    bare = make_measurement(load_s=0.020, step_s=0.030, loader_processes=8, rounds=1)
    bare = replace(bare, rounds=Rounds(), host=replace(HOST, cores=8))
    assert cores_needed(bare) is None
    assert workers_needed(bare) == 7


@pytest.mark.parametrize(
    ("occupied_s", "step_s", "workers"), [(0.040, 0.010, 5), (0.040, 0.050, 1), (0.0, 0.010, 1)]
)
def test_workers_by_littles_law(occupied_s: float, step_s: float, workers: int) -> None:
    """A batch that takes four steps needs four workers, or five at 80% use."""
    assert enough_workers(occupied_s, step_s) == workers


@pytest.mark.parametrize(
    ("load_s", "has", "cores", "advised"),
    [
        (0.050, 0, 4, "or try another number of workers: 3 (has 0)"),
        (0.050, 1, 4, "or try another number of workers: 3 or none (has 1)"),
        (0.060, 1, 3, "or try another number of workers: 3 or none (has 1)"),
        (0.060, 1, 2, "or try another number of workers: none (has 1)"),
        (0.0803, 2, 2, "or try another number of workers: fewer than 2 or none (has 2)"),
        (0.0803, 0, 2, "make loading faster; netpipe diagnose"),
    ],
)
def test_advice_on_workers_stays_within_the_cores(
    load_s: float, has: int, cores: int, advised: str
) -> None:
    """More workers are advised up to the number of cores; fewer and none are worth a try."""
    slow = make_measurement(load_s=load_s, train_s=load_s, loader_processes=has)
    slow = replace(slow, host=replace(HOST, cores=cores))
    assert judge(slow).kind == "loader-bound"
    assert advised in judge(slow).next


@pytest.mark.parametrize("doubt", ["verdict-not-confirmed", "not-repeated"])
def test_an_unconfirmed_verdict_gives_no_advice_on_workers(doubt: str) -> None:
    """A verdict that a second session did not confirm is too uncertain for it."""
    slow = make_measurement(load_s=0.08, train_s=0.08, loader_processes=2)
    doubtful = replace(slow, findings=(Finding(doubt, "first jitter, then loader-bound"),))
    assert "workers" in judge(slow).next
    assert judge(doubtful).next == "make loading faster; netpipe diagnose finds the change"
