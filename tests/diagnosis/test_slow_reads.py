"""Loaders whose reads wait: the measurements and trials that are made and skipped."""

from collections.abc import Sequence
from typing import Any

import grain
import numpy as np
import pytest

from netpipe.clock import Clock
from netpipe.diagnosis import investigation
from netpipe.diagnosis.experiments import single_thread_run, turns
from netpipe.diagnosis.experiments.pulling_threads import FirstLook
from netpipe.diagnosis.experiments.read_scaling import LATENCY, LEVELS
from netpipe.diagnosis.experiments.single_thread_run import SingleThreadRun
from netpipe.diagnosis.experiments.stage_times import StageTime
from netpipe.diagnosis.experiments.turns import Schedule, SideBlocks
from netpipe.diagnosis.investigation import Investigation
from netpipe.diagnosis.what_if import READS, Change
from netpipe.grain_access.loader_variants import count_threads, single_thread_variant
from netpipe.grain_access.reader import read_graph
from netpipe.jobs.heartbeat import UNWATCHED
from netpipe.jobs.targets import Target
from netpipe.storage import stand_in
from tests.diagnosis import loaders
from tests.diagnosis.examples import block, investigation_request, node, stage_time
from tests.diagnosis.made_reads import made_scaling

BATCH_S = 0.040
SOURCE, BATCH = node(0, "Source", random_access=True), node(1, "Batch")
WAITS = [stage_time("Source", 0.039, 0.001, SOURCE), stage_time("Batch", 0.001, 0.001, BATCH)]
COMPUTES = [stage_time("Source", 0.039, 0.039, SOURCE), *WAITS[1:]]
WAITS_LITTLE = [stage_time("Source", 0.019, 0.001, SOURCE), stage_time("Map", 0.021, 0.021, SOURCE)]
WAITS_BEHIND = [stage_time("Batch", 0.039, 0.001, BATCH)]
UNKNOWN = [stage_time("read", 0.039, 0.001)]


def compute_for(monkeypatch: pytest.MonkeyPatch, cpu_s: float) -> None:
    """Let a batch of 40 ms compute for `cpu_s`, without the time that other programs took."""
    monkeypatch.setattr(single_thread_run, "measure_cold_block", lambda *_: block(BATCH_S, cpu_s))


def run_of(loader: Any = loaders.plain, *, is_rebuilt: bool = True) -> SingleThreadRun:
    """Return the single-thread run of a loader whose batches take 40 ms."""
    single_thread, graph = single_thread_variant(loader)
    clock = Clock()
    look, schedule = FirstLook(0.0, BATCH_S), Schedule(clock, 60.0, UNWATCHED, clock())
    return SingleThreadRun(
        single_thread, Target("a", "b"), graph, is_rebuilt, look, schedule, UNWATCHED, []
    )


@pytest.mark.parametrize(
    ("times", "is_rebuilt", "measures"),
    [
        (WAITS, True, True),
        (COMPUTES, True, False),
        (WAITS_LITTLE, True, False),
        (WAITS_BEHIND, True, False),
        (UNKNOWN, True, False),
        ([], True, False),
        (WAITS, False, False),
    ],
    ids=["waits", "computes", "little", "behind", "unknown", "no-stages", "as-it-is"],
)
def test_only_reads_that_wait_are_measured(
    monkeypatch: pytest.MonkeyPatch, times: Sequence[StageTime], is_rebuilt: bool, measures: bool
) -> None:
    """Stages that threads can read must wait for half of a batch, in a rebuilt loader."""
    scaling = made_scaling()
    monkeypatch.setattr(single_thread_run, "measure_read_scaling", lambda *_: scaling)
    compute_for(monkeypatch, 0.001)
    assert run_of(is_rebuilt=is_rebuilt).measure_reads(times) is (scaling if measures else None)


@pytest.mark.parametrize(("cpu_s", "measures"), [(0.001, True), (0.019, True), (0.021, False)])
def test_stages_that_wait_for_a_core_do_not_count(
    monkeypatch: pytest.MonkeyPatch, cpu_s: float, measures: bool
) -> None:
    """Stage times include waits for a core, so a run without them is made first."""
    monkeypatch.setattr(single_thread_run, "measure_read_scaling", lambda *_: made_scaling())
    compute_for(monkeypatch, cpu_s)
    assert (run_of().measure_reads(WAITS) is not None) is measures


def test_reads_that_cannot_be_measured_are_a_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    """The diagnosis goes on."""

    def refuse(*_: object) -> None:
        raise OSError("too many requests")

    monkeypatch.setattr(single_thread_run, "measure_read_scaling", refuse)
    compute_for(monkeypatch, 0.001)
    run = run_of()
    assert run.measure_reads(WAITS) is None
    (remark,) = run.remarks
    assert "reads at the same time could not be measured" in remark
    assert "too many requests" in remark


def test_two_places_where_threads_read_are_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A remark says why."""
    compute_for(monkeypatch, 0.001)
    run = run_of(lambda: grain.IterDataset.mix([loaders.plain(), loaders.plain()], [0.5, 0.5]))
    assert run.measure_reads(WAITS) is None
    (remark,) = run.remarks
    assert "must have one to_iter_dataset; found 2" in remark


class Session:
    """An investigation without real measurements."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, loader: Any, *, reads_wait: bool) -> None:
        self.sides: list[set[str]] = []

        def measure_in_turns(sides: Any, *_: object) -> SideBlocks:
            self.sides.append(set(sides))
            return SideBlocks({side: [block(BATCH_S, 0.001)] * 3 for side in sides})

        monkeypatch.setattr(investigation, "measure_in_turns", measure_in_turns)
        clock = Clock()
        self.made = Investigation(loader, investigation_request(), 2, clock, UNWATCHED)
        self.made._look = FirstLook(0.0, BATCH_S)
        self.made._schedule = Schedule(clock, 60.0, UNWATCHED, clock())
        self.made._reads_wait = reads_wait


@pytest.mark.parametrize("loader", [loaders.threaded, loaders.with_worker])
def test_a_waiting_loader_is_not_changed_in_other_ways(
    monkeypatch: pytest.MonkeyPatch, loader: Any
) -> None:
    """Workers and the payload do not limit it."""
    waiting = Session(monkeypatch, loader, reads_wait=True)
    waiting.made._measure_variants(can_add_workers=True)
    assert waiting.sides == [{"unmodified"}]
    other = Session(monkeypatch, loader, reads_wait=False)
    other.made._measure_variants(can_add_workers=True)
    assert len(other.sides[0]) == 2


@pytest.mark.parametrize(("reads_wait", "threads"), [(True, 2), (False, 0)])
def test_workers_of_a_waiting_loader_keep_its_threads(
    monkeypatch: pytest.MonkeyPatch, reads_wait: bool, threads: int
) -> None:
    """Workers that compute have none."""
    session = Session(monkeypatch, loaders.threaded, reads_wait=reads_wait)
    assert count_threads(read_graph(session.made._with_workers(1)())) == threads


def test_the_reads_of_a_change_have_a_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loader that is tried has its threads, and a buffer of four elements for each."""
    change = Change("16 reads", READS, BATCH_S, threads=16)
    session = Session(monkeypatch, loaders.threaded, reads_wait=True)
    changed = session.made._build_changed(change, {})
    (reader,) = read_graph(changed()).of_kind("ToIter")
    assert (reader.integer("num_threads"), reader.integer("prefetch_buffer_size")) == (16, 64)


class Records:
    """A source of records in memory: uint8 (1000,)."""

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int) -> np.ndarray:
        return np.full(1000, index % 100, np.uint8)


def from_a_bucket() -> Any:
    """Return batches of records that take 20 ms each; two come at a time."""
    records = stand_in(Records(), "object-store,latency=20ms,tail=0ms")
    return grain.MapDataset.source(records).to_iter_dataset(loaders.THREADS).batch(4)


def test_a_loader_that_reads_from_a_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    """Latency is named, more reads in flight are predicted to help, and some are tried."""
    # Skip nothing on a busy machine.
    monkeypatch.setattr(turns, "max_duration_s", lambda _: 1e4)
    monkeypatch.setattr(turns, "_MAX_ROUNDS", 3)
    # It has no target to import.
    monkeypatch.setattr(single_thread_run, "SecondProcess", None)
    request = investigation_request(3.0)
    found = Investigation(from_a_bucket, request, 2, Clock(), UNWATCHED).run()
    assert found.bottleneck.resource == LATENCY
    assert "Source" in (found.bottleneck.stage or "")
    assert found.reads is not None
    assert found.reads.in_flight == 2
    assert [level.in_flight for level in found.reads.levels] == list(LEVELS)
    assert found.reads.bytes_per_read == pytest.approx(1000, rel=0.2)
    assert "faster" in {guess.expected for guess in found.what_if if guess.kind == READS}
    assert found.verified is not None
    assert found.verified.kind == READS
