"""Randomly drawn pipelines: reproducible by seed, and changed in one property at a time."""

from itertools import islice

import grain
import numpy as np
import pytest

from netpipe.grain_access.reader import read_graph
from netpipe.storage.profiles import parse_storage
from perf_tests.studies.diagnosis import subject
from perf_tests.studies.diagnosis.pipelines import (
    NOTHING,
    STAGES,
    Pipeline,
    Records,
    Work,
    draw_pipeline,
    draw_slow_reads,
    find_stage,
)

SEEDS = range(60)
QUICK = Pipeline(rows=4, workers=1, threads=0)


def first_batches(pipeline: Pipeline) -> list[np.ndarray]:
    """Return the tokens of three batches."""
    return [batch["tokens"] for batch in islice(iter(pipeline.dataset()), 3)]


def test_drawing_follows_the_seed() -> None:
    """The same seed draws the same pipeline, and seeds draw many different ones."""
    assert draw_pipeline(5) == draw_pipeline(5)
    assert len({str(draw_pipeline(seed)) for seed in SEEDS}) == len(SEEDS)


def test_every_shape_is_drawn() -> None:
    """One to three stages take time; every stage, kind of work and number of workers occurs."""
    pipelines = [draw_pipeline(seed) for seed in SEEDS]
    works = [getattr(drawn, stage) for drawn in pipelines for stage in drawn.working]
    assert {len(drawn.working) for drawn in pipelines} == {1, 2, 3}
    assert {stage for drawn in pipelines for stage in drawn.working} == set(STAGES)
    assert {work.how for work in works} == {"waits", "computes", "computes-unlocked"}
    assert all(0.003 <= work.s_per_batch <= 0.030 for work in works)
    assert {drawn.workers for drawn in pipelines} == {1, 2}
    assert {drawn.threads for drawn in pipelines} == {0, 2}


def test_removing_a_stage_changes_no_other_stage() -> None:
    """The removed stage does nothing, and with its work again the pipeline is as before."""
    pipeline = draw_pipeline(3)
    removed, *others = pipeline.working
    changed = pipeline.without(removed)
    assert getattr(changed, removed) == NOTHING
    assert changed.working == tuple(others)
    assert changed.with_work({removed: getattr(pipeline, removed)}) == pipeline


def test_changing_the_workers_changes_no_stage() -> None:
    """With its own number of workers again, the pipeline is as before."""
    changed = draw_pipeline(3).with_workers(4)
    assert changed.workers == 4
    assert changed.with_workers(draw_pipeline(3).workers) == draw_pipeline(3)


@pytest.mark.parametrize("threads", [0, 2])
def test_changes_give_the_same_batches(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the work of a stage nor the number of threads changes the data."""
    monkeypatch.setattr(grain.IterDataset, "mp_prefetch", lambda dataset, _: dataset)
    working = Pipeline(rows=4, workers=0, threads=threads, decode=Work("computes", 1e-6))
    for changed in (QUICK, working, working.without("decode")):
        for batch, other in zip(first_batches(changed), first_batches(QUICK), strict=True):
            assert np.array_equal(batch, other)


def test_the_work_of_a_batch_adds_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a stage works on rows or on batches, its time per batch is the same."""
    spent: list[float] = []
    monkeypatch.setattr(Work, "do", lambda work, part: spent.append(part * work.s_per_batch))
    for stage in STAGES:
        spent.clear()
        one_ms = QUICK.with_workers(0).with_work({stage: Work("waits", 0.001)})
        next(iter(one_ms.dataset()))
        assert sum(spent) == pytest.approx(0.001), stage


@pytest.mark.parametrize(
    ("name", "stage"),
    [
        ("without Source", "read"),
        ("Map of perf_tests.studies.diagnosis.pipelines.Decode absent", "decode"),
        ("Augment", "augment"),
        ("Batch", "stack"),
        ("Shuffle", None),
    ],
)
def test_a_stage_is_found_by_the_name_of_its_node(name: str, stage: str | None) -> None:
    """The name is the one that lint gives the node."""
    assert find_stage(name) == stage


def test_a_session_builds_what_its_environment_describes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline that is described in an environment variable is built unchanged."""
    pipeline = draw_pipeline(9)
    assert subject.parse_pipeline(subject.describe(pipeline)) == pipeline
    monkeypatch.setenv(subject.VARIABLE, subject.describe(QUICK.with_workers(0)))
    assert next(iter(subject.loader()))["tokens"].shape[0] == QUICK.rows


def test_slow_reads_follow_the_seed() -> None:
    """The same seed draws the same pipeline and storage, and seeds draw many different ones."""
    assert draw_slow_reads(5) == draw_slow_reads(5)
    assert len({str(draw_slow_reads(seed)) for seed in SEEDS}) == len(SEEDS)


def test_every_kind_of_storage_is_drawn() -> None:
    """Every pipeline shape gets latency alone, and latency with each limit."""
    drawn = [draw_slow_reads(seed) for seed in SEEDS]
    storages = [parse_storage(each.storage) for each in drawn]
    assert all(0.005 <= storage.latency_s <= 0.060 for storage in storages)
    assert all(
        storage.latency_s <= storage.tail_latency_s <= 4 * storage.latency_s for storage in storages
    )
    limits = {
        each.storage.split(",")[3].split("=")[0] for each in drawn if each.storage.count(",") > 2
    }
    assert limits == {"bandwidth", "rate", "concurrent"}
    assert any(each.storage.count(",") == 2 for each in drawn)
    rates = [storage for storage in storages if storage.reads_per_s < 5500]
    assert {storage.retry_s > 0 for storage in rates} == {True, False}
    assert {each.workers for each in drawn} == {0, 1, 2}
    assert {each.threads for each in drawn} == {0, 2, 4, 8, 16}
    assert {each.reads_batches for each in drawn} == {True, False}


def test_a_limit_is_reached_by_some_reads_in_flight() -> None:
    """A limit allows 3 to 40 reads in flight; diagnose tries 4, 16 and 64."""
    drawn = [draw_slow_reads(seed).storage for seed in SEEDS]
    for storage in map(parse_storage, drawn):
        assert storage.max_concurrent_reads >= 2
        allowed = min(storage.reads_per_s, storage.total_bytes_per_s / 20_000) * storage.latency_s
        if "rate=" in storage.name or "bandwidth=" in storage.name:
            assert 2.9 < allowed < 41


def test_records_differ_in_their_size() -> None:
    """Record sizes differ by up to four times around the typical size."""
    sizes = [Records(20_000)[number].nbytes for number in range(700)]
    assert (min(sizes), max(sizes)) == (8_000, 32_000)
    assert np.mean(sizes) == pytest.approx(20_000, rel=0.02)


@pytest.mark.parametrize("threads", [0, 2])
def test_threads_read_rows_or_batches(threads: int) -> None:
    """Both give the same batches; the buffer holds two batches for each thread."""
    storage = "object-store,latency=1ms,tail=0ms"
    whole, single = (
        Pipeline(4, 0, threads, storage=storage, record_bytes=20_000, reads_batches=reads_batches)
        for reads_batches in (True, False)
    )
    for batch, other in zip(first_batches(whole), first_batches(single), strict=True):
        assert np.array_equal(batch, other)
    for pipeline, ahead in ((whole, 2), (single, 8)):
        (reader,) = read_graph(pipeline.dataset()).of_kind("ToIter")
        assert reader.integer("num_threads") == threads
        assert reader.integer("prefetch_buffer_size") == ahead * threads
