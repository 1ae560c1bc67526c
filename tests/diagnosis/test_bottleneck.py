"""Which stage limits, and which resource binds it."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from netpipe.diagnosis.blocks import Block
from netpipe.diagnosis.bottleneck import Evidence, bottleneck, scaling
from netpipe.diagnosis.cost_model import Parts, Work
from netpipe.diagnosis.diagnosis import Bottleneck, Intervention
from netpipe.diagnosis.prediction import Known
from netpipe.diagnosis.turns import SideBlocks
from netpipe.results.measurement import Interval
from tests.diagnosis.examples import block, interval, stage_time, turns

COMPUTES, WAITS = Work(0.030, 0.030), Work(0.030, 0.003)
TIMES = (stage_time("Map of tokenize", 0.030), stage_time("Source", 0.010))
# Two threads as fast as one; two processes twice as fast.
LOCKED = turns(lane=0.040, two_threads=0.040, two_processes=0.020)
IDLE = turns(lane=block(0.040, 0.013), two_threads=0.020, two_processes=0.020)


def found(
    work: Work = COMPUTES,
    lanes: SideBlocks = LOCKED,
    tiny: Interval | None = None,
    read_bytes: float = 0.0,
    workers: int = 0,
    cores: int = 8,
) -> Bottleneck:
    """Return the bottleneck of a loader whose first stage is `work`."""
    parts = Parts(((work, True), (Work(0.010, 0.010), True)), workers, 0, cores)
    as_it_is = [block(0.040, 0.010 + work.cpu_s, read_bytes_per_batch=read_bytes)] * 3
    return bottleneck(
        Known(parts, (0.040,)), TIMES, Evidence(lanes, tiny, as_it_is, "ProcessPrefetch")
    )


def test_the_largest_gain_is_the_stage() -> None:
    """The stage is that without which a batch would come soonest, with its share of the time."""
    assert found().stage == "Map of tokenize"
    assert found().fraction == pytest.approx(0.75)


def test_a_stage_in_the_shadow_of_another_is_none() -> None:
    """What the process that trains does all the time limits, however much workers have to do."""
    parts = Parts(((Work(0.100, 0.0), True), (Work(0.030, 0.0), False)), 8, 0, 8)
    result = bottleneck(Known(parts, (0.030,)), TIMES, Evidence(LOCKED, None, [], ""))
    assert result.stage == "Source"


def test_two_that_limit_alike_are_told_by_their_order() -> None:
    """Of two stages that gain the same the first one is told: the larger of the two."""
    parts = Parts(((COMPUTES, True), (COMPUTES, True)), 0, 0, 8)
    result = bottleneck(Known(parts, (0.060,)), TIMES, Evidence(LOCKED, None, [], ""))
    assert result.stage == "Map of tokenize"


def test_processes_help_and_threads_do_not() -> None:
    """It computes with Python's lock held."""
    result = found()
    assert result.resource == "gil"
    assert result.why == "threads 1 to 2: +0%, processes 1 to 2: +100%"


def test_threads_help_as_much_as_processes() -> None:
    """It computes without the lock."""
    assert found(lanes=turns(lane=0.040, two_threads=0.021, two_processes=0.020)).resource == "cpu"


@pytest.mark.parametrize(("threads_s", "resource"), [(0.0280, "gil"), (0.0260, "cpu")])
def test_half_of_what_a_process_adds_is_of_use(threads_s: float, resource: str) -> None:
    """A second thread is of use from half of what a second process adds."""
    lanes = turns(lane=0.040, two_threads=threads_s, two_processes=0.020)
    assert found(lanes=lanes).resource == resource


def test_workers_that_use_all_cores_are_bound_by_them() -> None:
    """Even code that holds the lock is bound by the CPU once its workers use the cores up."""
    result = found(workers=4, cores=2)
    assert result.resource == "cpu"
    assert result.why.endswith("its 4 workers use the cores up")
    assert found(workers=4, cores=8).resource == "gil"


def test_no_free_core_is_the_cpu() -> None:
    """Two processes on one core give no more than one, and no more CPU time is used."""
    lanes = turns(lane=0.040, two_threads=0.040, two_processes=block(0.038, 0.041))
    result = found(lanes=lanes)
    assert result.resource == "cpu"
    assert result.why.endswith("no second core is free")


def test_a_batch_that_needs_more_cpu_beside_another_shares_memory() -> None:
    """Two processes give no more than one, for each computes longer beside the other."""
    lanes = turns(lane=0.040, two_threads=0.040, two_processes=block(0.038, 0.075))
    result = found(lanes=lanes)
    assert result.resource == "memory"
    assert "a batch takes 1.88 times the CPU time" in result.why


def test_what_reads_from_a_disk_waits_for_it() -> None:
    """It does not compute, and bytes come from a disk."""
    result = found(WAITS, IDLE, read_bytes=3e6)
    assert result.resource == "disk"
    assert result.why.startswith("it computes 10")
    assert result.why.endswith("3 MB a batch come from a disk")


@pytest.mark.parametrize("rounds", [2, 3, 9])
def test_a_lane_that_reads_tells_of_workers_that_do(rounds: int) -> None:
    """Where workers read, this process does not: the lane's reading counts, however few it has."""
    read = block(0.040, 0.013, read_bytes_per_batch=3e6)
    lanes = turns(rounds, lane=read, two_threads=read, two_processes=read)
    assert "3 MB a batch" in found(WAITS, lanes).why


def test_a_loader_whose_lane_failed_is_judged_by_itself() -> None:
    """Without a lane, what the loader as it is has read is what counts."""
    assert found(WAITS, SideBlocks(), read_bytes=3e6).resource == "disk"
    assert found(WAITS, SideBlocks()).resource == "waiting"


def test_what_neither_computes_nor_reads_waits() -> None:
    """A few bytes from a disk are no reason to wait as long as that."""
    assert found(WAITS, IDLE, read_bytes=100.0).resource == "waiting"


def test_a_payload_is_what_limits() -> None:
    """The transfer is told where sending nothing gives more than any stage's absence."""
    result = found(workers=2, tiny=Interval(8.0, 6.0, 10.0, 5))
    assert (result.stage, result.resource) == ("ProcessPrefetch", "process-transfer")
    assert result.fraction == pytest.approx(7 / 8)


@pytest.mark.parametrize(
    "tiny",
    [Interval(1.05, 1.04, 1.06, 5), Interval(8.0, 0.9, 70.0, 5), interval(2.0)],
    ids=["little", "doubtful", "less than a stage"],
)
def test_a_payload_that_hardly_counts_is_none(tiny: Interval) -> None:
    """A transfer that is small, in doubt or less than a stage is not what limits."""
    assert found(workers=2, tiny=tiny).resource == "gil"


def unclear(*speedups: float) -> SideBlocks:
    """Return lanes of which two processes give a different speedup in each round."""
    rounds = [
        turns(1, lane=0.040, two_threads=0.040, two_processes=0.040 / one) for one in speedups
    ]
    return SideBlocks(tuple(one.rounds[0] for one in rounds))


def test_an_unclear_effect_names_no_resource() -> None:
    """A factor of 2.12 whose interval reaches below 1 names no lock; the clearest effect leads."""
    lanes = unclear(1.1, 2.12, 9.0)
    assert lanes.speedup("two-processes", "lane").low < 1
    cache = Intervention(
        "cached-bytes", "from the cache", interval(0.1), interval(0.04), interval(2.8), ""
    )
    result = bottleneck(
        Known(Parts(((COMPUTES, True), (Work(0.010, 0.010), True)), 0, 0, 8), (0.040,)),
        TIMES,
        Evidence(lanes, None, [block(0.040)] * 3, "", (cache,)),
    )
    assert result.resource == "unknown"
    assert result.why == (
        "no clear cause; the clearest effect is from the cache: 2.80 (2.52 to 3.08) times as fast"
    )


def named(lanes: SideBlocks, work: Work = COMPUTES) -> str:
    """Return the resource that lanes show."""
    return found(work, lanes).resource


def in_rounds(**sides: Sequence[Block | float]) -> SideBlocks:
    """Return rounds that differ, three of each side."""
    rounds = [turns(1, **{name: each[n] for name, each in sides.items()}) for n in range(3)]
    return SideBlocks(tuple(one.rounds[0] for one in rounds))


def test_each_resource_needs_a_clear_effect() -> None:
    """What names it must stay away from no difference, whatever its median is."""
    lane, half, wild = (0.040,) * 3, (0.020,) * 3, (0.050, 0.040, 0.010)
    assert named(in_rounds(lane=lane, two_threads=lane, two_processes=half)) == "gil"
    # A second thread may be as good as a second process.
    assert named(in_rounds(lane=lane, two_threads=wild, two_processes=half)) == "unknown"
    assert named(in_rounds(lane=lane, two_threads=half, two_processes=half)) == "cpu"
    wild = (0.045, 0.020, 0.010)
    assert named(in_rounds(lane=lane, two_threads=wild, two_processes=half)) == "unknown"
    wild = (0.044, 0.019, 0.004)
    assert named(in_rounds(lane=lane, two_threads=half, two_processes=wild)) == "unknown"
    wild = (0.080, 0.040, 0.010)
    assert named(in_rounds(lane=lane, two_threads=lane, two_processes=wild)) == "unknown"


def test_memory_needs_clearly_more_cpu_time() -> None:
    """CPU time beside another process that is more in one round and less in the next is noise."""
    lane = (0.040,) * 3
    clear, noise = (
        [block(0.038, cpu_s) for cpu_s in each]
        for each in (
            (0.074, 0.075, 0.076),
            (0.020, 0.060, 0.200),
        )
    )
    assert named(in_rounds(lane=lane, two_threads=lane, two_processes=clear)) == "memory"
    assert named(in_rounds(lane=lane, two_threads=lane, two_processes=noise)) == "cpu"


def test_a_lane_that_may_compute_all_the_time_does_not_wait() -> None:
    """A stage seems to wait, but its lane's wall time is not clearly above its CPU time."""
    lane = [block(0.040, cpu_s) for cpu_s in (0.010, 0.035, 0.080)]
    assert named(in_rounds(lane=lane, two_threads=[0.04] * 3, two_processes=[0.02] * 3), WAITS) == (
        "unknown"
    )


def test_what_could_not_be_compared_is_said() -> None:
    """Without both of the comparisons nothing tells the CPU from Python's lock."""
    result = found(lanes=turns(lane=0.040, two_threads=0.040))
    assert result.resource == "unknown"
    assert result.why == "no clear cause; no change made a clear difference"


def test_without_stages_nothing_is_known() -> None:
    """A loader of which no stage was seen is bound by nobody knows what."""
    evidence = Evidence(LOCKED, None, [], "")
    known = Known(Parts((), 0, 0, 2), (0.01,))
    assert bottleneck(known, (), evidence).resource == "unknown"
    sends = replace(evidence, tiny=interval(4.0))
    assert bottleneck(known, (), sends).resource == "process-transfer"


def test_scaling_tells_what_was_measured() -> None:
    """A side that failed is not in it."""
    assert scaling(turns(lane=0.040, two_processes=0.020)) == "processes 1 to 2: +100%"
