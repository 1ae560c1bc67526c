"""The stage and the resource that limit a loader."""

from collections.abc import Sequence

import pytest

from netpipe.diagnosis.conclusions import find_bottleneck
from netpipe.diagnosis.cost_model import LoaderModel, StageCost
from netpipe.diagnosis.diagnosis import Bottleneck, Intervention
from netpipe.diagnosis.experiments.pulling_threads import Block
from netpipe.diagnosis.experiments.read_scaling import BANDWIDTH, LATENCY, THROTTLING, ReadScaling
from netpipe.diagnosis.experiments.turns import SideBlocks
from netpipe.diagnosis.what_if import MeasuredLoader
from tests.diagnosis.examples import (
    block,
    evidence,
    in_rounds,
    interval,
    node,
    stage_time,
    turns,
    with_workers_graph,
)
from tests.diagnosis.made_reads import made_scaling

COMPUTES, WAITS = StageCost(0.030, 0.030), StageCost(0.030, 0.003)
TIMES = (stage_time("Map of tokenize", 0.030), stage_time("Source", 0.010))
# Two threads as fast as one; two processes twice as fast.
LOCKED = turns(single_thread=0.040, two_threads=0.040, two_processes=0.020)
IDLE = turns(single_thread=block(0.040, 0.013), two_threads=0.020, two_processes=0.020)


FASTER = interval(2.8)


def find(
    work: StageCost = COMPUTES,
    scaling: SideBlocks = LOCKED,
    tiny_s: Sequence[float] = (),
    read_bytes: float = 0.0,
    workers: int = 0,
    cores: int = 8,
    interventions: Sequence[Intervention] = (),
) -> Bottleneck:
    """Return the bottleneck of a loader whose first stage is `work`."""
    model = LoaderModel(((work, True), (StageCost(0.010, 0.010), True)), workers, 0, cores)
    unmodified = [block(0.040, 0.010 + work.cpu_s, read_bytes_per_batch=read_bytes)] * 3
    variants = in_rounds(unmodified=unmodified, **({"tiny_payload": tiny_s} if tiny_s else {}))
    measured = evidence(
        graph=with_workers_graph(), times=TIMES, scaling=scaling, variants=variants, cores=cores
    )
    return find_bottleneck(MeasuredLoader(model, model.s_per_batch()), measured, interventions)


@pytest.mark.parametrize(
    ("stages", "workers", "stage"),
    [
        # Eight workers need less time for a batch than the training process does.
        (((StageCost(0.100, 0.0), True), (StageCost(0.030, 0.0), False)), 8, "Source"),
        # Stages are sorted by their time, so the first of two equal ones is the larger.
        (((COMPUTES, True), (COMPUTES, True)), 0, "Map of tokenize"),
    ],
)
def test_the_stage_that_costs_most_limits(
    stages: tuple[tuple[StageCost, bool], ...], workers: int, stage: str
) -> None:
    """A stage that runs beside a slower one does not limit."""
    loader = MeasuredLoader(LoaderModel(stages, workers, 0, 8), 0.040)
    assert find_bottleneck(loader, evidence(times=TIMES, scaling=LOCKED), ()).stage == stage


def test_the_lock_limits_if_only_processes_help() -> None:
    """The reason has both gains, and the stage its share of the time."""
    found = find()
    assert (found.stage, found.resource) == ("Map of tokenize", "gil")
    assert found.fraction == pytest.approx(0.75)
    assert found.why == "threads 1 to 2: +0%, processes 1 to 2: +100%"


@pytest.mark.parametrize(
    ("threads_s", "resource"), [(0.0280, "gil"), (0.0260, "cpu"), (0.021, "cpu")]
)
def test_threads_help_from_half_of_the_gain_of_processes(threads_s: float, resource: str) -> None:
    """A second thread that gains less than half of a second process's gain shows the lock."""
    scaling = turns(single_thread=0.040, two_threads=threads_s, two_processes=0.020)
    assert find(scaling=scaling).resource == resource


def test_workers_that_use_all_cores_are_bound_by_them() -> None:
    """Even code that holds the lock is bound by the CPU then."""
    found = find(workers=4, cores=2)
    assert found.resource == "cpu"
    assert "4 workers" in found.why
    assert find(workers=4, cores=8).resource == "gil"


@pytest.mark.parametrize(
    ("cpu_s", "resource", "why"),
    [(0.041, "cpu", "no second core"), (0.075, "memory", "1.88 times")],
)
def test_processes_that_do_not_scale(cpu_s: float, resource: str, why: str) -> None:
    """They lack a core, or need more CPU time beside each other because they share memory."""
    slowed = block(0.038, cpu_s)
    found = find(scaling=turns(single_thread=0.040, two_threads=0.040, two_processes=slowed))
    assert found.resource == resource
    assert why in found.why


@pytest.mark.parametrize(("read_bytes", "resource"), [(3e6, "disk"), (100.0, "waiting")])
def test_a_waiting_stage_that_reads_waits_for_the_disk(read_bytes: float, resource: str) -> None:
    """A few bytes from a disk do not explain the waiting."""
    found = find(WAITS, IDLE, read_bytes=read_bytes)
    assert found.resource == resource
    assert found.why.startswith("it computes 10.0% of its time and ")
    assert ("3 MB" in found.why) is (resource == "disk")


@pytest.mark.parametrize("rounds", [2, 3, 9])
def test_reads_of_the_single_thread_run_count(rounds: int) -> None:
    """The kernel does not report the reads of workers."""
    reads = block(0.040, 0.013, read_bytes_per_batch=3e6)
    scaling = turns(rounds, single_thread=reads, two_threads=reads, two_processes=reads)
    assert "3 MB" in find(WAITS, scaling).why


def test_a_payload_may_limit() -> None:
    """The transfer limits if sending nothing gains more than any stage at no cost."""
    found = find(workers=2, tiny_s=[0.005] * 3)
    assert (found.stage, found.resource) == ("ProcessPrefetch", "process-transfer")
    assert found.fraction == pytest.approx(7 / 8)


@pytest.mark.parametrize(
    "tiny_s",
    [[0.038] * 3, [0.040, 0.005, 0.0006], [0.020] * 3],
    ids=["small", "unclear", "less than a stage"],
)
def test_a_payload_that_hardly_counts_does_not_limit(tiny_s: Sequence[float]) -> None:
    """A stage limits if the effect of the transfer is small, unclear or less than the stage's."""
    assert find(workers=2, tiny_s=tiny_s).resource == "gil"


def test_an_unclear_effect_names_no_resource() -> None:
    """The reason is the clearest intervention if the interval of the speedup includes 1."""
    seconds = [0.040 / speedup for speedup in (1.1, 2.12, 9.0)]
    scaling = in_rounds(single_thread=[0.04] * 3, two_threads=[0.04] * 3, two_processes=seconds)
    assert scaling.speedup("two-processes", "single-thread").low < 1
    tiny = Intervention("tiny-payload", "sent less", interval(0.1), interval(0.04), FASTER, "")
    found = find(scaling=scaling, interventions=(tiny,))
    assert found.resource == "unknown"
    assert tiny.effect in found.why


SAME, HALF = (0.040,) * 3, (0.020,) * 3


@pytest.mark.parametrize(
    ("threads_s", "processes_s", "resource"),
    [
        (SAME, HALF, "gil"),
        (HALF, HALF, "cpu"),
        # A second thread may be as good as a second process.
        ((0.050, 0.040, 0.010), HALF, "unknown"),
        ((0.045, 0.020, 0.010), HALF, "unknown"),
        (HALF, (0.044, 0.019, 0.004), "unknown"),
        (SAME, (0.080, 0.040, 0.010), "unknown"),
        (SAME, [block(0.038, cpu_s) for cpu_s in (0.074, 0.075, 0.076)], "memory"),
        # More CPU time in one round and less in the next is noise.
        (SAME, [block(0.038, cpu_s) for cpu_s in (0.020, 0.060, 0.200)], "cpu"),
    ],
)
def test_each_resource_needs_a_clear_effect(
    threads_s: Sequence[float], processes_s: Sequence[Block | float], resource: str
) -> None:
    """The interval of the effect must exclude 1, whatever the median is."""
    scaling = in_rounds(single_thread=SAME, two_threads=threads_s, two_processes=processes_s)
    assert find(scaling=scaling).resource == resource


def test_a_run_that_may_compute_all_the_time_does_not_wait() -> None:
    """A stage seems to wait, but the wall time is not clearly above the CPU time."""
    unclear = [block(0.040, cpu_s) for cpu_s in (0.010, 0.035, 0.080)]
    scaling = in_rounds(single_thread=unclear, two_threads=SAME, two_processes=HALF)
    assert find(WAITS, scaling).resource == "unknown"


def test_a_missing_comparison_names_no_resource() -> None:
    """Only both comparisons together distinguish the CPU from Python's lock."""
    assert find(scaling=turns(single_thread=0.040, two_threads=0.040)).resource == "unknown"


def test_without_stages_only_the_transfer_can_limit() -> None:
    """The bottleneck of a loader without visible stages is otherwise unknown."""
    loader = MeasuredLoader(LoaderModel((), 0, 0, 2), 0.01)
    sends = evidence(variants=turns(unmodified=0.04, tiny_payload=0.01))
    assert find_bottleneck(loader, evidence(), ()).resource == "unknown"
    assert find_bottleneck(loader, sends, ()).resource == "process-transfer"


def find_slow_reads(
    reads: ReadScaling | None,
    threads: int = 4,
    *,
    random_access: bool = True,
    read_bytes: float = 0,
) -> Bottleneck:
    """Return the bottleneck of a loader whose source waits."""
    times = (stage_time("Source", 0.040, 0.001, node(0, "Source", random_access=random_access)),)
    cost = StageCost(0.040, 0.001, 0.040, 0.039)
    model = LoaderModel(((cost, True),), 0, threads, 8, reads=reads)
    unmodified = block(0.010, 0.001, read_bytes_per_batch=read_bytes)
    scaling = turns(single_thread=block(0.040, 0.001))
    measured = evidence(
        times=times, scaling=scaling, variants=turns(unmodified=unmodified), reads=reads
    )
    return find_bottleneck(MeasuredLoader(model, 0.010), measured, ())


def test_reads_without_growth_are_bound_by_their_latency() -> None:
    """The reason has the times of few and of many reads, and the number that the loader has."""
    found = find_slow_reads(made_scaling())
    assert (found.stage, found.resource) == ("Source", LATENCY)
    assert found.why == (
        "it computes 2.5% of its time; 4 reads at the same time take 40 ms each, 64 take 40 ms, "
        "and it has 4"
    )


@pytest.mark.parametrize("limit", [BANDWIDTH, THROTTLING])
def test_a_limit_binds_only_loaders_that_reach_it(limit: str) -> None:
    """More reads in flight still help with 4 of them, but not with 16."""
    reads = made_scaling((1.0, 1.0, 4.0), limit)
    assert find_slow_reads(reads, threads=4).resource == LATENCY
    found = find_slow_reads(reads, threads=16)
    assert found.resource == limit
    assert "64 take 160 ms" in found.why
    assert ("larger records" in found.why) is (limit == THROTTLING)


def test_one_read_can_take_the_whole_bandwidth() -> None:
    """More reads in flight then do not help, although a single one is not slowed down."""
    reads = made_scaling((4.0, 16.0, 64.0), BANDWIDTH)
    assert find_slow_reads(reads, threads=0).resource == BANDWIDTH


def test_an_unclear_limit_is_not_named() -> None:
    """The resource is the general one, and the reason names both possible limits."""
    found = find_slow_reads(made_scaling((1.0, 4.0, 16.0), ""), threads=16)
    assert found.resource == "waiting"
    assert found.why.endswith(
        ": a bandwidth or a limit on requests; records of about one size cannot tell which"
    )


def test_unmeasured_reads_only_wait() -> None:
    """So does a stage behind the reader threads."""
    for found in (find_slow_reads(None), find_slow_reads(made_scaling(), random_access=False)):
        assert found.resource == "waiting"
        assert "reads nothing from a local disk" in found.why


def test_a_local_disk_is_named_before_a_storage() -> None:
    """The kernel counted the bytes that came from it."""
    assert find_slow_reads(made_scaling(), read_bytes=3e6).resource == "disk"
