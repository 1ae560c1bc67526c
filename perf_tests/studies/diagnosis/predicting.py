"""Trials of predictions: the predicted and the measured effect of a change."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Final

import numpy as np

from netpipe.diagnosis.diagnosis import Prediction
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


@dataclass(frozen=True)
class Predicting:
    """One prediction, and the measured effect of its change.

    Attributes:
        kind: One of `KINDS`.
        change: The change, as diagnose names it.
        diagnosed_s_per_batch: The unchanged pipeline, measured by diagnose.
        predicted_s_per_batch: The prediction for the changed pipeline, if there is one.
        before_s_per_batch: The unchanged pipeline, measured in turns with the changed one.
        measured_s_per_batch: The changed pipeline; None without a prediction.
        busy_elsewhere_fraction: Fraction of the machine's CPU time that other programs took.
        failure: Why something is missing, or "".
    """

    seed: int
    pipeline: Pipeline
    kind: str
    change: str = ""
    diagnosed_s_per_batch: Interval | None = None
    predicted_s_per_batch: Interval | None = None
    before_s_per_batch: Interval | None = None
    measured_s_per_batch: Interval | None = None
    busy_elsewhere_fraction: float = 0.0
    failure: str = ""

    @property
    def error_fraction(self) -> float | None:
        """The error of the prediction over the measurement; None if either is missing."""
        return self._error_fraction(1.0)

    @property
    def is_inside(self) -> bool:
        """Whether the measured time lies in the predicted interval, if that has a bound."""
        predicted, measured = self.predicted_s_per_batch, self.measured_s_per_batch
        if predicted is None or measured is None or not isfinite(predicted.high):
            return False
        return predicted.low <= measured.median <= predicted.high

    @property
    def steady_error_fraction(self) -> float | None:
        """The error, corrected for changes in the machine's speed since the diagnosis.

        Like the trial of a diagnosis, it compares with the unchanged pipeline in the same session.
        """
        if self.before_s_per_batch is None or self.diagnosed_s_per_batch is None:
            return None
        return self._error_fraction(
            self.before_s_per_batch.median / self.diagnosed_s_per_batch.median
        )

    def _error_fraction(self, slower: float) -> float | None:
        if self.predicted_s_per_batch is None or self.measured_s_per_batch is None:
            return None
        measured_s = self.measured_s_per_batch.median
        return abs(slower * self.predicted_s_per_batch.median - measured_s) / measured_s


@dataclass(frozen=True)
class Change:
    """A prediction, and the changed pipeline."""

    prediction: Prediction
    pipeline: Pipeline


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
            diagnosed_s_per_batch=answer.findings.load_s_per_batch,
            predicted_s_per_batch=change.prediction.load_s_per_batch if change else None,
            before_s_per_batch=before,
            measured_s_per_batch=measured.get(kind),
            busy_elsewhere_fraction=round(timed.busy_elsewhere_fraction, 3),
            failure="" if change else "diagnose predicted no such change",
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


def _apply(pipeline: Pipeline, prediction: Prediction) -> Pipeline | None:
    """Make the predicted change; None if that does not change the pipeline."""
    if prediction.kind == "without-stage":
        stage = find_stage(prediction.change)
        return pipeline.without(stage) if stage in pipeline.working else None
    if prediction.kind == READS:
        threads = re.search(r"num_threads=(\d+)", prediction.change)
        return replace(pipeline, threads=int(threads[1])) if threads else None
    asked = re.search(r"\d+", prediction.change)
    workers = int(asked[0]) if asked else pipeline.workers
    same = workers == pipeline.workers or workers > _MAX_WORKERS
    return None if same else pipeline.with_workers(workers)
