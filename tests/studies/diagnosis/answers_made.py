"""Made-up answers of diagnose."""

from collections.abc import Sequence
from dataclasses import replace

from netpipe.diagnosis.diagnosis import Bottleneck, Findings, Prediction, Verification
from netpipe.results.measurement import Interval
from netpipe.results.start_up import StartUp
from perf_tests.studies.diagnosis.asking import Answer


def about(seconds: float) -> Interval:
    """Return an interval of 5% around it."""
    return Interval(seconds, 0.95 * seconds, 1.05 * seconds, 6)


def prediction(change: str, kind: str, expected: str = "faster") -> Prediction:
    """Predict the direction of a change."""
    return Prediction(change, kind, expected)


def verification(change: str, kind: str, measured_s: float) -> Verification:
    """Measure a change of a loader that takes 30 ms."""
    return Verification(change, kind, about(measured_s), about(0.030), f"{change}: tried")


_FINDINGS = Findings(
    load_s_per_batch=about(0.030),
    load_cpu_s_per_batch=about(0.002),
    lane="rebuilt",
    lane_s_per_batch=about(0.030),
    lane_cpu_s_per_batch=about(0.002),
    workers=0,
    threads=0,
    stages=(),
    bottleneck=Bottleneck("Source", "waiting", 0.9, "it takes 27 of 30 ms"),
    interventions=(),
    what_if=(),
    verified=None,
    unverified="nothing could be changed",
    elapsed_s=20.0,
)


def answer(
    stage: str | None = "Source",
    resource: str = "waiting",
    what_if: Sequence[Prediction] = (),
    start_up: StartUp | None = None,
    verified: Verification | None = None,
) -> Answer:
    """Blame a stage and a resource."""
    findings = replace(
        _FINDINGS,
        bottleneck=replace(_FINDINGS.bottleneck, stage=stage, resource=resource),
        what_if=tuple(what_if),
        start_up=start_up,
        verified=verified,
    )
    return Answer(f"It is {stage}, bound by {resource}.", findings)
