"""Runs the sessions of `netpipe diagnose`: measurement, lint and investigation."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, Final

from netpipe.device.accelerators import names_with_peak, peak_flops_of_name
from netpipe.device.detection import installed_versions
from netpipe.device.host import this_host
from netpipe.diagnosis.diagnose_request import InvestigationRequest
from netpipe.diagnosis.diagnosis import Bottleneck, Diagnosis, Findings, Need, findings_from
from netpipe.diagnosis.experiments.turns import max_duration_s
from netpipe.diagnosis.summary import summarize
from netpipe.jobs.parent import CHILD_COMMAND, run_measurement, run_session
from netpipe.jobs.progress import OnProgress
from netpipe.jobs.request import TYPICAL_START_S
from netpipe.linting.lint_request import LintRequest
from netpipe.linting.rules import LOCAL_ONLY
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.results.measurement import Measurement
from netpipe.verdict.decision import judge
from netpipe.verdict.kinds import VerdictKind
from netpipe.verdict.worker_sizing import enough_workers

# Fraction of the budget for measuring the loader with its step, if it has one.
_STEP_BUDGET_FRACTION: Final = 1 / 3


@dataclass(frozen=True)
class DiagnosisRequest:
    """The targets and settings of a diagnosis; the budget covers all sessions."""

    session: MeasureRequest

    @property
    def has_step(self) -> bool:
        """Whether a step is measured."""
        return "step" in self.session.targets or self.session.accelerator != "auto"

    @property
    def step_budget_s(self) -> float:
        """Seconds for measuring the loader with its step."""
        return _STEP_BUDGET_FRACTION * self.session.budget_s if self.has_step else 0.0

    @property
    def typical_s(self) -> float:
        """Seconds that all sessions usually take together."""
        return self.session.budget_s + (2 + self.has_step) * TYPICAL_START_S


def run_diagnosis(
    asked: DiagnosisRequest,
    silences: Mapping[str, str],
    intent: str,
    progress: OnProgress | None = None,
) -> Diagnosis:
    """Measure a loader with its step, if it has one, and find out what limits it.

    `silences` maps each silenced lint rule to the reason.

    Raises:
        MisuseError: The loader, the step or the loop is unsuitable.
        SessionError: A session crashed, hung or ran out of time.
    """
    session, measurement = asked.session, None
    if asked.has_step:
        request = replace(session, budget_s=asked.step_budget_s)
        measurement = run_measurement(CHILD_COMMAND, request, progress=progress)
    budget_s = session.budget_s - asked.step_budget_s
    lint_request = LintRequest(
        targets={"loader": session.targets["loader"]},
        accelerator=session.accelerator, start_limit_s=session.start_limit_s,
        intent=intent, silences=silences,
    )  # fmt: skip
    lint = run_session(CHILD_COMMAND, lint_request, progress=progress)
    investigation_request = InvestigationRequest(
        accelerator=session.accelerator, start_limit_s=session.start_limit_s,
        budget_s=max_duration_s(budget_s), batch_limit_s=session.batch_limit_s,
        targets={role: named for role, named in session.targets.items() if role != "loop"},
        wanted_s=budget_s,
        step_s=None if measurement is None else measurement.step_s.median,
        load_s=None if measurement is None else astuple(measurement.load_s_per_batch),
    )  # fmt: skip
    answer = run_session(CHILD_COMMAND, investigation_request, progress=progress)
    return compose_diagnosis(answer, measurement, lint, session)


def compose_diagnosis(
    answer: Mapping[str, Any],
    measurement: Measurement | None,
    lint: Mapping[str, Any],
    request: MeasureRequest,
) -> Diagnosis:
    """Combine the answers of all sessions into a diagnosis."""
    findings = findings_from(answer["findings"])
    verdict = None if measurement is None else judge(measurement)
    if measurement and measurement.loader_processes and not findings.workers:
        # The loader starts workers of its own, whose number was not varied.
        workers = measurement.loader_processes
        findings = replace(findings, workers=workers, enough_workers=None)
    if measurement and verdict and verdict.kind == VerdictKind.TRANSFER_BOUND:
        transfer_s = measurement.step_transfer_s or measurement.step_s
        fraction = 1 - min(1.0, measurement.step_s.median / transfer_s.median)
        bottleneck = Bottleneck(None, "device-transfer", fraction, verdict.message)
        findings = replace(findings, bottleneck=bottleneck)
    flops = request.flops_per_step or answer["flops_per_step"]
    return Diagnosis(
        sentence=summarize(findings, measurement, verdict),
        findings=findings,
        needs=list_needs(findings, flops, request.mfu),
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


def list_needs(findings: Findings, flops_per_step: float | None, mfu: float) -> tuple[Need, ...]:
    """Return the needs of each accelerator with known peak FLOPs, the slowest first."""
    if flops_per_step is None:
        return ()
    # A batch occupies a worker for the stages that run in workers; without workers, for all stages.
    stages = [stage for stage in findings.stages if stage.section == "workers"] or findings.stages
    load_s = findings.load_s_per_batch.median
    occupied_s = max(sum(stage.s_per_batch for stage in stages), findings.workers * load_s)
    peaks = {name: peak_flops_of_name(name) for name in names_with_peak()}
    steps_s = {name: flops_per_step / (peak * mfu) for name, peak in peaks.items() if peak}
    return tuple(
        Need(
            accelerator=name,
            step_s=step_s,
            batches_per_s=1 / step_s,
            workers=enough_workers(occupied_s, step_s),
            cores=findings.load_cpu_s_per_batch.median / step_s,
            headroom=step_s / load_s,
        )
        for name, step_s in sorted(steps_s.items(), key=lambda item: -item[1])
    )
