"""Made-up trials of diagnoses."""

from typing import Any

from perf_tests.studies.diagnosis.naming import Naming
from perf_tests.studies.diagnosis.pipelines import Pipeline, Work
from perf_tests.studies.diagnosis.predicting import VERIFIED, Predicting
from tests.studies.diagnosis.answers_made import about

PIPELINE = Pipeline(
    rows=4, workers=1, threads=0, read=Work("waits", 0.020), decode=Work("computes", 0.010)
)


def naming(right: bool = True, case: str = "slow-source", **overrides: Any) -> Naming:
    """Make the trial of a source that waits."""
    values: dict[str, Any] = {
        "case": case,
        "seed": 1,
        "values": {"step_s": 0.02},
        "planted": "Source: waiting",
        "stage": "Source" if right else "Map of made.up.Transform",
        "resource": "waiting",
        "is_stage": right,
        "is_resource": True,
        "sentence": "Loader-bound.",
        "why": "it takes 27 of 30 ms",
        "elapsed_s": 20.0,
    }
    return Naming(**{**values, **overrides})


def predicting(
    came: float | None = 0.020, kind: str = "workers", seed: int = 1, failure: str = ""
) -> Predicting:
    """Make a trial of a change from 30 ms that is expected to be faster."""
    if came is None:
        return Predicting(seed, PIPELINE, kind, failure=failure or "it failed")
    return Predicting(
        seed,
        PIPELINE,
        kind,
        change="2 workers",
        expected="faster",
        speedup=about(1.5) if kind == VERIFIED else None,
        before_s_per_batch=about(0.030),
        measured_s_per_batch=about(came),
    )
