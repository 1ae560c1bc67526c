"""Pipelines drawn by lot: the same by the same seed, and changed in one thing only."""

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
    """One to three stages take time, every stage and every way among them, in 1 and 2 workers."""
    pipelines = [draw_pipeline(seed) for seed in SEEDS]
    works = [getattr(drawn, stage) for drawn in pipelines for stage in drawn.working]
    assert {len(drawn.working) for drawn in pipelines} == {1, 2, 3}
    assert {stage for drawn in pipelines for stage in drawn.working} == set(STAGES)
    assert {work.how for work in works} == {"waits", "computes", "computes-unlocked"}
    assert all(0.003 <= work.s_per_batch <= 0.030 for work in works)
    assert {drawn.workers for drawn in pipelines} == {1, 2}
    assert {drawn.threads for drawn in pipelines} == {0, 2}


def test_a_stage_taken_out_takes_no_time_and_nothing_else_changes() -> None:
    """Only its work is gone."""
    pipeline = draw_pipeline(3)
    taken, *others = pipeline.working
    changed = pipeline.without(taken)
    assert getattr(changed, taken) == NOTHING
    assert changed.working == tuple(others)
    assert changed.with_work({taken: getattr(pipeline, taken)}) == pipeline


def test_workers_change_nothing_else() -> None:
    """The stages stay."""
    changed = draw_pipeline(3).with_workers(4)
    assert changed.workers == 4
    assert changed.with_workers(draw_pipeline(3).workers) == draw_pipeline(3)


@pytest.mark.parametrize("threads", [0, 2])
def test_changes_give_the_same_batches(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stage less, or more threads, are timed on the same data."""
    monkeypatch.setattr(grain.IterDataset, "mp_prefetch", lambda dataset, _: dataset)
    working = Pipeline(rows=4, workers=0, threads=threads, decode=Work("computes", 1e-6))
    for changed in (QUICK, working, working.without("decode")):
        for batch, other in zip(first_batches(changed), first_batches(QUICK), strict=True):
            assert np.array_equal(batch, other)


def test_a_stage_spends_its_time_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows of a batch together, or the batch alone, take what the stage takes."""
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
def test_a_stage_is_known_by_its_node(name: str, stage: str | None) -> None:
    """A stage is recognised by the name that lint gives its node."""
    assert find_stage(name) == stage


def test_a_session_builds_what_its_environment_describes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline survives the way through a variable."""
    pipeline = draw_pipeline(9)
    assert subject.parse_pipeline(subject.describe(pipeline)) == pipeline
    monkeypatch.setenv(subject.VARIABLE, subject.describe(QUICK.with_workers(0)))
    assert next(iter(subject.loader()))["tokens"].shape[0] == QUICK.rows
