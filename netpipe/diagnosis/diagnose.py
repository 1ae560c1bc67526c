"""Runs the sessions of `netpipe diagnose`: measurement, lint and investigation."""

from collections.abc import Mapping
from dataclasses import astuple, replace
from typing import Any, Final

from netpipe.device.detection import installed_versions
from netpipe.device.host import this_host
from netpipe.diagnosis.diagnose_request import InvestigationRequest
from netpipe.diagnosis.diagnosis import Bottleneck, Diagnosis, Findings
from netpipe.diagnosis.experiments.turns import max_duration_s
from netpipe.diagnosis.summary import summarize
from netpipe.errors import MisuseError
from netpipe.jobs.parent import CHILD_COMMAND, run_measurement, run_session
from netpipe.jobs.progress import OnProgress
from netpipe.jobs.request import TYPICAL_START_S
from netpipe.linting.lint_request import LintRequest
from netpipe.linting.rules import LOCAL_ONLY
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.results.fields import converter
from netpipe.results.measurement import Measurement
from netpipe.verdict.decision import judge
from netpipe.verdict.kinds import VerdictKind
from netpipe.verdict.quantities import own_step_s

# Fraction of the budget for measuring the loader with its step, if it has one.
_STEP_BUDGET_FRACTION: Final = 0.5


def has_step(request: MeasureRequest) -> bool:
    """Return whether a diagnosis measures a step."""
    return "step" in request.targets or request.accelerator != "auto"


def typical_s(request: MeasureRequest) -> float:
    """Return the seconds that all sessions of a diagnosis usually take together."""
    return request.budget_s + (2 + has_step(request)) * TYPICAL_START_S


def run_diagnosis(
    request: MeasureRequest, linting: LintRequest, progress: OnProgress | None = None
) -> Diagnosis:
    """Measure a loader with its step, if it has one, and find out what limits it.

    The budget of the request covers all sessions; `linting` holds the lint settings.

    Raises:
        MisuseError: The loader, the step or the loop is unsuitable.
        SessionError: A session crashed, hung or ran out of time.
    """
    if (request.trace or "loop" in request.targets) and not has_step(request):
        raise MisuseError("a loop and a trace need a step or an emulated accelerator")
    measurement, step_budget_s = None, 0.0
    if has_step(request):
        step_budget_s = _STEP_BUDGET_FRACTION * request.budget_s
        measured = replace(request, budget_s=step_budget_s)
        measurement = run_measurement(CHILD_COMMAND, measured, progress=progress)
    budget_s = request.budget_s - step_budget_s
    targets = {"loader": request.targets["loader"]}
    lint_request = replace(
        linting, targets=targets,
        accelerator=request.accelerator, start_limit_s=request.start_limit_s,
    )  # fmt: skip
    lint = run_session(CHILD_COMMAND, lint_request, progress=progress)
    investigation_request = InvestigationRequest(
        targets=targets, accelerator=request.accelerator, start_limit_s=request.start_limit_s,
        budget_s=max_duration_s(budget_s), batch_limit_s=request.batch_limit_s, wanted_s=budget_s,
        step_s=None if measurement is None else measurement.step_s.median,
        load_s=None if measurement is None else astuple(measurement.load_s_per_batch),
    )  # fmt: skip
    answer = run_session(CHILD_COMMAND, investigation_request, progress=progress)
    return compose_diagnosis(answer, measurement, lint)


def compose_diagnosis(
    found: Mapping[str, Any], measurement: Measurement | None, lint: Mapping[str, Any]
) -> Diagnosis:
    """Combine the answers of all sessions into a diagnosis."""
    findings = converter().structure(found, Findings)
    verdict = None if measurement is None else judge(measurement)
    if measurement and measurement.loader_processes and not findings.workers:
        # The loader starts workers of its own, whose number was not varied.
        workers = measurement.loader_processes
        findings = replace(findings, workers=workers, enough_workers=None)
    if measurement and verdict and verdict.kind == VerdictKind.TRANSFER_BOUND:
        transfer_s = measurement.step_transfer_s or measurement.step_s
        fraction = 1 - min(1.0, own_step_s(measurement) / transfer_s.median)
        bottleneck = Bottleneck(None, "device-transfer", fraction, verdict.message)
        findings = replace(findings, bottleneck=bottleneck)
    return Diagnosis(
        sentence=summarize(findings, measurement, verdict),
        findings=findings,
        measurement=measurement,
        lint=_silence_local_rules(lint) if findings.reads else lint,
        host=this_host(),
        versions=installed_versions(),
    )


def _silence_local_rules(lint: Mapping[str, Any]) -> Mapping[str, Any]:
    """Silence the findings that do not hold if reading waits; this lint did not measure reading."""
    needless = [finding for finding in lint["findings"] if finding["rule"] in LOCAL_ONLY]
    kept = [finding for finding in lint["findings"] if finding not in needless]
    reason = "reading was measured to wait"
    silenced = [*lint["silenced"], *({**finding, "reason": reason} for finding in needless)]
    return {**lint, "findings": kept, "silenced": silenced}
