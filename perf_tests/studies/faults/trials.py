"""One trial: a case measured in a fresh process, again if it stays open."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from netpipe.errors import NetpipeError
from netpipe.jobs.parent import CHILD_COMMAND, ProcessEnvironment, run_measurement
from netpipe.jobs.targets import name_targets
from netpipe.measuring.measure_request import MeasureRequest
from netpipe.results.measurement import Measurement
from netpipe.verdict.decision import find_remarks, judge
from perf_tests.studies.faults.cases import Case
from perf_tests.studies.faults.subject import VARIABLE, describe

_TARGET: Final = "perf_tests.studies.faults.subject:"
FAILED: Final = "error"  # replaces a verdict if the session ended without a measurement


@dataclass(frozen=True)
class Trial:
    """The verdict of a case.

    Attributes:
        expected: The right verdict, as it is printed.
        kinds: The kinds of verdict that are right.
        finding: The finding that also names the fault.
        names: What that finding must name.
        control: Whether the case has no fault.
        called: The verdict's kind, or "error".
        findings: The message of each finding, by its name.
        first_message: The message of the first of two sessions; None when there was one.
        elapsed_s: Wall seconds of both sessions.
    """

    case: str
    expected: str
    kinds: tuple[str, ...]
    finding: str | None
    names: str
    control: bool
    seed: int
    values: Mapping[str, float]
    called: str
    message: str
    findings: Mapping[str, str]
    first_message: str | None
    elapsed_s: float


@dataclass(frozen=True)
class _Session:
    """The verdict of one session; no measurement when it failed."""

    called: str
    message: str
    findings: Mapping[str, str]
    measurement: Measurement | None


def run(case: Case, seed: int, budget_s: float) -> tuple[Trial, Measurement | None]:
    """Measure a case with values drawn from `seed`.

    A session that leaves the case open, or blames a control, is followed by one more, which
    decides. A run of `perf_tests` likewise reports an alarm only if a fresh process confirms it. It
    would also measure a fault twice; the second verdict is right as often as the first.

    The measurement that decided is returned too; None when the session failed.
    """
    values, started = case.draw(seed), time.monotonic()
    first = last = _measure(case, values, budget_s)
    if first.called == "inconclusive" or (case.is_control and first.called not in case.kinds):
        last = _measure(case, values, budget_s)
    trial = Trial(
        case=case.name,
        expected=case.expected,
        kinds=case.kinds,
        finding=case.finding,
        names=case.names,
        control=case.is_control,
        seed=seed,
        values=values,
        called=last.called,
        message=last.message,
        findings=last.findings,
        first_message=first.message if last is not first else None,
        elapsed_s=round(time.monotonic() - started, 2),
    )
    return trial, last.measurement


def _measure(case: Case, values: Mapping[str, float], budget_s: float) -> _Session:
    request = MeasureRequest(
        accelerator=case.accelerator(values),
        budget_s=budget_s * case.budget_ratio,
        stopping_rule="clear",  # as in `netpipe measure`
        targets=name_targets(
            loader=f"{_TARGET}loader",
            step=f"{_TARGET}step" if case.step else None,
            loop=f"{_TARGET}loop" if case.loop else None,
        ),
    )
    variables = {VARIABLE: describe(case, values), "JAX_PLATFORMS": "cpu"}
    try:
        measurement = run_measurement(
            CHILD_COMMAND, request, ProcessEnvironment(variables=variables)
        )
    except NetpipeError as error:
        return _Session(FAILED, str(error), {}, None)
    verdict = judge(measurement)
    findings = {remark.name: remark.message for remark in find_remarks(measurement, verdict)}
    return _Session(verdict.kind, verdict.message, findings, measurement)
