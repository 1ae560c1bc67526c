"""Trials of predictions: the expected and the measured effect of a change."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Final

import numpy as np

from netpipe.diagnosis.diagnosis import Prediction, Verification, clear_factor
from netpipe.diagnosis.experiments.turns import divide
from netpipe.errors import NetpipeError
from netpipe.results.measurement import Interval
from netpipe.results.statistics import median_interval
from perf_tests.studies.diagnosis import subject
from perf_tests.studies.diagnosis.asking import Answer, Question, diagnose
from perf_tests.studies.diagnosis.pipelines import (
    Pipeline,
    draw_pipeline,
    draw_slow_reads,
    find_stage,
)
from perf_tests.studies.diagnosis.turns import time_pipelines

_MAX_WORKERS: Final = 4
KINDS: Final = ("workers", "without-stage")
READS: Final = "reads-in-flight"
VERIFIED: Final = "verified"


@dataclass(frozen=True)
class Predicting:
    """One claim of diagnose about a change, and the measured effect of the change.

    Attributes:
        kind: The kind of a prediction, or "verified" for the change that diagnose tried.
        change: The change, as diagnose names it.
        expected: "faster", "slower" or "unclear".
        speedup: The speedup that diagnose measured, of the change that it tried.
        before_s_per_batch: The unchanged pipeline, measured in turns with the changed one.
        measured_s_per_batch: The changed pipeline; None if diagnose said nothing about the change.
        busy_elsewhere_fraction: Fraction of the machine's CPU time that other programs took.
        failure: Why something is missing, or "".
    """

    seed: int
    pipeline: Pipeline
    kind: str
    change: str = ""
    expected: str = ""
    speedup: Interval | None = None
    before_s_per_batch: Interval | None = None
    measured_s_per_batch: Interval | None = None
    busy_elsewhere_fraction: float = 0.0
    failure: str = ""

    @property
    def measured_speedup(self) -> float | None:
        """The measured speedup, above 1 if the change helps; None if it was not measured."""
        if self.before_s_per_batch is None or self.measured_s_per_batch is None:
            return None
        return self.before_s_per_batch.median / self.measured_s_per_batch.median

    @property
    def is_right(self) -> bool | None:
        """Whether the direction is right; None if diagnose did not give one."""
        if self.measured_speedup is None or self.expected not in ("faster", "slower"):
            return None
        return (self.measured_speedup > 1) is (self.expected == "faster")

    @property
    def is_inside(self) -> bool | None:
        """Whether the speedup lies in the interval that diagnose measured, if it tried."""
        if self.measured_speedup is None or self.speedup is None:
            return None
        low, high = self.speedup.low, self.speedup.high
        return isfinite(high) and low <= self.measured_speedup <= high


@dataclass(frozen=True)
class Change:
    """A claim of diagnose about a change, and the changed pipeline."""

    prediction: Prediction
    pipeline: Pipeline
    speedup: Interval | None = None


def run(seed: int, budget_s: float) -> Iterator[Predicting]:
    """Diagnose the pipeline of a seed, make one change of each kind, and compare.

    A stage is only removed if another one takes time.
    """
    pipeline = draw_pipeline(seed)
    kinds = KINDS if len(pipeline.working) > 1 else KINDS[:1]
    return _run(seed, pipeline, kinds, budget_s)


def run_slow_reads(seed: int, budget_s: float) -> Iterator[Predicting]:
    """Diagnose a pipeline that waits for a storage, change its reads in flight, and compare."""
    return _run(seed, draw_slow_reads(seed), [READS], budget_s)


def _run(
    seed: int, pipeline: Pipeline, kinds: Sequence[str], budget_s: float
) -> Iterator[Predicting]:
    try:
        variables = {subject.VARIABLE: subject.describe(pipeline)}
        answer = diagnose(Question(f"{subject.__name__}:loader", variables, budget_s))
        yield from _compare(seed, pipeline, kinds, answer)
    except NetpipeError as error:
        for kind in kinds:
            yield Predicting(seed, pipeline, kind, failure=str(error))


def _compare(
    seed: int, pipeline: Pipeline, kinds: Sequence[str], answer: Answer
) -> list[Predicting]:
    """Measure the pipeline and its changed versions in one session."""
    changes = {kind: choose_change(seed, kind, pipeline, answer.findings.what_if) for kind in kinds}
    if verified := answer.findings.verified:
        changes[VERIFIED] = find_tried_change(pipeline, verified)
    made = {kind: change for kind, change in changes.items() if change}
    timed = time_pipelines([pipeline, *(change.pipeline for change in made.values())])
    before, *after = map(median_interval, timed.s_per_batch)
    measured = dict(zip(made, after, strict=True))
    return [
        Predicting(
            seed,
            pipeline,
            kind,
            change=change.prediction.change if change else "",
            expected=change.prediction.expected if change else "",
            speedup=change.speedup if change else None,
            before_s_per_batch=before,
            measured_s_per_batch=measured.get(kind),
            busy_elsewhere_fraction=round(timed.busy_elsewhere_fraction, 3),
            failure="" if change else "this change was not predicted, or cannot be made here",
        )
        for kind, change in changes.items()
    ]


def choose_change(
    seed: int, kind: str, pipeline: Pipeline, predictions: Sequence[Prediction]
) -> Change | None:
    """Draw one of the predictions of a kind that can be tried, if there is one."""
    candidates = [
        Change(prediction, changed)
        for prediction in predictions
        if prediction.kind == kind and (changed := _apply(pipeline, prediction)) is not None
    ]
    if not candidates:
        return None
    number = [*KINDS, READS].index(kind)
    index = np.random.default_rng([seed, number]).integers(len(candidates))
    return candidates[int(index)]


def find_tried_change(pipeline: Pipeline, verified: Verification) -> Change | None:
    """Return the change that diagnose tried, with its direction if that is clear."""
    speedup = divide(verified.before_s_per_batch.median, verified.measured_s_per_batch)
    expected = "unclear"
    if clear_factor(speedup):
        expected = "faster" if speedup.median > 1 else "slower"
    tried = Prediction(verified.change, verified.kind, expected)
    changed = _apply(pipeline, tried)
    return None if changed is None else Change(tried, changed, speedup)


def _apply(pipeline: Pipeline, prediction: Prediction) -> Pipeline | None:
    """Make the predicted change; None if that does not change the pipeline."""
    if prediction.kind == "without-stage":
        stage = find_stage(prediction.change)
        return pipeline.without(stage) if stage in pipeline.working else None
    if prediction.kind in (READS, "no-threads"):
        threads = re.search(r"num_threads=(\d+)", prediction.change)
        return replace(pipeline, threads=int(threads[1])) if threads else None
    asked = re.search(r"\d+", prediction.change)
    workers = int(asked[0]) if asked else pipeline.workers
    same = workers == pipeline.workers or workers > _MAX_WORKERS
    return None if same else pipeline.with_workers(workers)
