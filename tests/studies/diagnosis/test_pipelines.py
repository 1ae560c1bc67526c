"""Randomly drawn pipelines: reproducible by seed, and changed in one property at a time."""

from itertools import islice

import grain
import numpy as np
import pytest

from perf_tests.studies.diagnosis import subject
from perf_tests.studies.diagnosis.pipelines import (
    NOTHING,
    STAGES,
    Pipeline,
    Work,
    draw_pipeline,
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
