"""`netpipe diagnose` as sessions: the loader with its step, its order, then what limits it."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from netpipe.device.detection import installed_versions
from netpipe.device.host import this_host
from netpipe.diagnosis.accelerator_needs import needs
from netpipe.diagnosis.child import KIND
from netpipe.diagnosis.diagnosis import Bottleneck, Diagnosis, Findings, findings_from
from netpipe.diagnosis.schedule import longest_s
from netpipe.diagnosis.summary_sentence import sentence
from netpipe.linting import child as linting_child
from netpipe.linting.request import LintRequest
from netpipe.measuring import child as measuring_child
from netpipe.measuring.request import MeasureRequest
from netpipe.results.measurement import Measurement
from netpipe.session.parent import run_measurement, run_session
from netpipe.session.progress import OnProgress
from netpipe.session.request import OVERTIME_S, SessionRequest
from netpipe.verdict.decision import judge
from netpipe.verdict.kinds import VerdictKind

_MEASURING: Final = 1 / 3  # of the budget, where there is a step


@dataclass(frozen=True)
class Asked:
    """What is to be diagnosed.

    Attributes:
        loader: The target.
        step: The step's target; None without one.
        loop: The loop's target; None for the harness's own.
        request: Accelerator, FLOPs, MFU, limits and trace; its budget is for all.
    """

    loader: str
    step: str | None
    loop: str | None
    request: MeasureRequest

    @property
    def has_step(self) -> bool:
        """Whether there is anything that the loader feeds."""
        return self.step is not None or self.request.accelerator != "auto"


def diagnosed(
    asked: Asked, silences: Mapping[str, str], intent: str, progress: OnProgress | None = None
) -> Diagnosis:
    """Measure a loader with its step, if it has one, and find out what limits it.

    Args:
        asked: What is to be diagnosed, and in how long.
        silences: Of the lint, as its settings have them.
        intent: What the lint holds the order to.
        progress: Hears how far it is.

    Raises:
        MisuseError: The loader, the step or the loop is not what it must be.
        SessionError: A session crashed, hung or ran out of time.
    """
    budget_s = asked.request.budget_s
    measurement = _measurement(asked, _MEASURING * budget_s, progress) if asked.has_step else None
    lint = run_session(
        linting_child.child_command(asked.loader),
        LintRequest(
            accelerator=asked.request.accelerator,
            start_limit_s=asked.request.start_limit_s,
            intent=intent,
            silences=silences,
        ),
        progress=progress,
    )
    left_s = budget_s * (1 - _MEASURING) if measurement else budget_s
    found = _found(asked, measurement, left_s, progress)
    return composed(found, measurement, lint, asked.request)


def _measurement(asked: Asked, budget_s: float, progress: OnProgress | None) -> Measurement:
    command = measuring_child.child_command(asked.loader, asked.step, asked.loop)
    request = replace(asked.request, budget_s=budget_s)
    return run_measurement(command, request, progress=progress)


def _found(
    asked: Asked, measurement: Measurement | None, budget_s: float, progress: OnProgress | None
) -> dict[str, Any]:
    command = [sys.executable, "-P", "-m", "netpipe.diagnosis.child", "--loader", asked.loader]
    command += ["--step", asked.step] if asked.step else []
    command += ["--step-s", repr(measurement.step_s.median)] if measurement else []
    command += ["--budget-s", repr(budget_s)]
    request = SessionRequest(
        KIND,
        accelerator=asked.request.accelerator,
        budget_s=longest_s(budget_s),
        batch_limit_s=asked.request.batch_limit_s,
        start_limit_s=asked.request.start_limit_s,
    )
    found: dict[str, Any] = run_session(command, request, progress=progress)
    return found


def most_s(asked: Asked) -> float:
    """Return the seconds that a diagnosis takes at most, without those of starting.

    Its processes start, import and give a first batch within limits of their own.
    """
    budget_s = asked.request.budget_s
    if not asked.has_step:
        return longest_s(budget_s)
    return _MEASURING * budget_s + OVERTIME_S + longest_s((1 - _MEASURING) * budget_s)


def composed(
    found: Mapping[str, Any],
    measurement: Measurement | None,
    lint: Mapping[str, Any],
    request: MeasureRequest,
) -> Diagnosis:
    """Put a loader's findings beside what its step needs.

    Args:
        found: What the session of `netpipe.diagnosis.child` answered.
        measurement: Of the loader with its step; None without one.
        lint: The `netpipe.lint/1` document of the loader.
        request: Its FLOPs and MFU, for the needs of accelerators.
    """
    findings = findings_from(found["findings"])
    if measurement is not None:
        findings = findings.held_to(measurement.load_s_per_batch)
    verdict = None if measurement is None else judge(measurement)
    limits = _limiting(findings, measurement)
    flops = request.flops_per_step or found["flops_per_step"]
    return Diagnosis(
        sentence=sentence(findings, limits, measurement, verdict),
        findings=replace(findings, bottleneck=limits),
        needs=needs(findings, flops, request.mfu),
        measurement=measurement,
        lint=lint,
        host=this_host(),
        versions=installed_versions(),
    )


def _limiting(findings: Findings, measurement: Measurement | None) -> Bottleneck:
    """Return what limits: the loader's own bottleneck, unless copying batches is what waits."""
    verdict = None if measurement is None else judge(measurement)
    if measurement is None or verdict is None or verdict.kind != VerdictKind.TRANSFER_BOUND:
        return findings.bottleneck
    over = measurement.step_transfer_s or measurement.step_s
    fraction = 1 - min(1.0, measurement.step_s.median / over.median)
    return Bottleneck(None, "device-transfer", fraction, verdict.message)
