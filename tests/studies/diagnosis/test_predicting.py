"""Trials of predictions: the change that is made, and whether its direction is right."""

from collections.abc import Sequence
from dataclasses import replace
from math import inf

import pytest

from netpipe.diagnosis.diagnosis import Prediction
from netpipe.results.measurement import Interval
from perf_tests.studies.children import ChildError
from perf_tests.studies.diagnosis import predicting
from perf_tests.studies.diagnosis.asking import Question
from perf_tests.studies.diagnosis.pipelines import Pipeline, draw_pipeline, draw_slow_reads
from perf_tests.studies.diagnosis.predicting import (
    READS,
    choose_change,
    find_tried_change,
    run,
    run_slow_reads,
)
from perf_tests.studies.diagnosis.turns import Timed
from tests.studies.diagnosis.answers_made import answer, prediction, verification
from tests.studies.diagnosis.trials_of_diagnosis import PIPELINE
from tests.studies.diagnosis.trials_of_diagnosis import predicting as make_trial

WHAT_IF = (
    prediction("2 workers", "workers"),
    prediction("no Source", "without-stage"),
)
SEED = next(
    seed
    for seed in range(99)
    if len(draw_pipeline(seed).working) > 1 and draw_pipeline(seed).workers == 1
)
ALONE = next(seed for seed in range(99) if len(draw_pipeline(seed).working) == 1)


def alike(pipelines: Sequence[Pipeline]) -> Timed:
    """Return equal times for all pipelines."""
    return Timed(((0.02,),) * len(pipelines), 0.0)


def made(kind: str, *what_if: Prediction, pipeline: Pipeline = PIPELINE) -> set[Pipeline]:
    """Return every change that some seed makes to a pipeline."""
    changes = [choose_change(seed, kind, pipeline, what_if) for seed in range(30)]
    return {change.pipeline for change in changes if change}


def test_a_change_is_made_in_the_pipeline() -> None:
    """A change sets the number of workers, or removes a stage's delay."""
    assert made("workers", *WHAT_IF) == {PIPELINE.with_workers(2)}
    assert made("without-stage", *WHAT_IF) == {PIPELINE.without("read")}


def test_what_changes_nothing_is_not_tried() -> None:
    """The present number of workers, too many workers, and a stage without work are refused."""
    assert not made("workers", prediction("1 worker", "workers"))
    assert not made("workers", prediction("16 workers", "workers"))
    assert not made("without-stage", prediction("no Batch", "without-stage"))


def test_seeds_try_different_changes() -> None:
    """Every possible change is made by some seed, and a seed always makes the same one."""
    both = [prediction(f"{n} workers", "workers") for n in (2, 3)]
    assert made("workers", *both) == {PIPELINE.with_workers(n) for n in (2, 3)}
    assert choose_change(5, "workers", PIPELINE, both) == choose_change(
        5, "workers", PIPELINE, both
    )


def test_a_seed_is_diagnosed_changed_and_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both changes and the unchanged pipeline are timed in one session."""
    stage = {"read": "Source", "decode": "Decode", "augment": "Augment", "stack": "Batch"}
    first = draw_pipeline(SEED).working[0]
    what_if = (WHAT_IF[0], prediction(f"no {stage[first]}", "without-stage"))

    def timed(pipelines: Sequence[Pipeline]) -> Timed:
        as_it_is = draw_pipeline(SEED)
        assert pipelines == [as_it_is, as_it_is.with_workers(2), as_it_is.without(first)]
        return Timed(((0.030, 0.031, 0.032), (0.016,) * 3, (0.011,) * 3), 0.25)

    monkeypatch.setattr(predicting, "diagnose", lambda _: answer(what_if=what_if))
    monkeypatch.setattr(predicting, "time_pipelines", timed)
    workers, without = run(SEED, 5.0)
    assert (workers.kind, workers.change) == ("workers", "2 workers")
    assert workers.measured_speedup == pytest.approx(31 / 16)
    assert without.measured_speedup == pytest.approx(31 / 11)
    assert workers.is_right
    assert workers.before_s_per_batch == without.before_s_per_batch
    assert workers.before_s_per_batch
    assert workers.before_s_per_batch.median == 0.031
    assert workers.busy_elsewhere_fraction == 0.25


def test_the_only_stage_is_left_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline's only stage is never removed."""
    monkeypatch.setattr(predicting, "diagnose", lambda _: answer(what_if=WHAT_IF))
    monkeypatch.setattr(predicting, "time_pipelines", alike)
    assert [trial.kind for trial in run(ALONE, 5.0)] == ["workers"]


def test_a_missing_prediction_is_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change that diagnose did not predict is a trial too."""
    monkeypatch.setattr(predicting, "diagnose", lambda _: answer())
    monkeypatch.setattr(predicting, "time_pipelines", alike)
    trials = list(run(SEED, 5.0))
    assert trials
    for trial in trials:
        assert trial.is_right is None
        assert trial.measured_s_per_batch is None
        assert "not predicted" in trial.failure


def test_a_failure_is_a_trial_of_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failure is a wrong trial of each kind of change."""

    def failing(_: Question) -> None:
        raise ChildError("ended with code 2")

    monkeypatch.setattr(predicting, "diagnose", failing)
    both = list(run(SEED, 5.0))
    assert [trial.kind for trial in both] == ["workers", "without-stage"]
    assert {trial.failure for trial in both} == {"ended with code 2"}


@pytest.mark.parametrize(
    ("expected", "came_s", "is_right"),
    [
        ("faster", 0.029, True),
        ("faster", 0.031, False),
        ("slower", 0.031, True),
        ("slower", 0.029, False),
        ("unclear", 0.010, None),
        ("faster", None, None),
    ],
)
def test_a_direction_is_right_or_wrong(
    expected: str, came_s: float | None, is_right: bool | None
) -> None:
    """The loader takes 30 ms without the change; no direction and no measurement do not count."""
    assert replace(make_trial(came_s), expected=expected).is_right is is_right


@pytest.mark.parametrize(
    ("measured_s", "expected"), [(0.015, "faster"), (0.060, "slower"), (0.0298, "unclear")]
)
def test_the_tried_change_is_a_trial(
    monkeypatch: pytest.MonkeyPatch, measured_s: float, expected: str
) -> None:
    """It has the direction and the speedup that diagnose measured."""
    verified = verification("2 workers", "workers", measured_s)
    monkeypatch.setattr(predicting, "diagnose", lambda _: answer(verified=verified))
    monkeypatch.setattr(predicting, "time_pipelines", alike)
    *_, tried = run(SEED, 5.0)
    assert (tried.kind, tried.change, tried.expected) == ("verified", "2 workers", expected)
    assert tried.speedup
    assert tried.speedup.median == pytest.approx(0.030 / measured_s)
    assert tried.measured_speedup == 1.0


def test_giving_up_threads_is_made_in_the_pipeline() -> None:
    """The change that diagnose tried may be the number of reader threads."""
    threaded = replace(PIPELINE, threads=4)
    verified = verification("no reader threads (num_threads=0)", "no-threads", 0.020)
    change = find_tried_change(threaded, verified)
    assert change is not None
    assert change.pipeline == PIPELINE


READS_64 = prediction("64 reads in flight (grain.ReadOptions(num_threads=32))", READS)


def test_reads_in_flight_are_changed_by_their_threads() -> None:
    """Reads in flight are changed by the threads, not by workers."""
    (changed,) = made(READS, READS_64)
    assert changed == replace(PIPELINE, threads=32)
    assert not made(READS, *WHAT_IF)


def test_slow_reads_are_diagnosed_changed_and_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slow reads have their own draw, and only the reads in flight change."""
    pipeline = draw_slow_reads(7)

    def timed(pipelines: Sequence[Pipeline]) -> Timed:
        assert pipelines == [pipeline, replace(pipeline, threads=32)]
        return Timed(((0.030,) * 3, (0.002,) * 3), 0.0)

    monkeypatch.setattr(predicting, "diagnose", lambda _: answer(what_if=(*WHAT_IF, READS_64)))
    monkeypatch.setattr(predicting, "time_pipelines", timed)
    (trial,) = run_slow_reads(7, 5.0)
    assert (trial.kind, trial.pipeline) == (READS, pipeline)
    assert trial.measured_speedup == pytest.approx(15.0)


@pytest.mark.parametrize(("high", "is_inside"), [(2.0, True), (1.4, False), (inf, False)])
def test_an_interval_without_a_bound_holds_nothing(high: float, is_inside: bool) -> None:
    """The interval of a single round has no bound, so nothing counts as inside."""
    trial = make_trial(came=0.020)
    assert trial.is_inside is (True if trial.speedup else None)
    assert replace(trial, speedup=Interval(1.2, 1.0, high, 3)).is_inside is is_inside
