"""Trials of naming: a case of the fault catalogue, and the stage and resource diagnosed."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from netpipe.diagnosis.diagnosis import Bottleneck, Findings
from netpipe.errors import NetpipeError
from netpipe.results.start_up import START_PARTS
from perf_tests.studies.diagnosis.asking import Question, diagnose
from perf_tests.studies.faults import subject
from perf_tests.studies.faults.cases import Case
from perf_tests.studies.faults.planted import SLOW_START, Planted

# Replaces the resource if a diagnosis failed.
_FAILED = "error"


@dataclass(frozen=True)
class Naming:
    """The bottleneck that diagnose named for a case.

    Attributes:
        planted: The correct answer, as printed.
        stage: The named stage, if any.
        resource: The named resource, or "error".
        is_stage: Whether the stage is the planted one.
        is_resource: Whether the resource is one that limits it.
        sentence: The summary; the error of a failed diagnosis.
        why: The reason.
    """

    case: str
    seed: int
    values: Mapping[str, float]
    planted: str
    stage: str | None
    resource: str
    is_stage: bool
    is_resource: bool
    sentence: str
    why: str
    elapsed_s: float

    @property
    def is_right(self) -> bool:
        """Whether stage and resource are correct."""
        return self.is_stage and self.is_resource


def make_question(case: Case, values: Mapping[str, float], budget_s: float) -> Question:
    """Return the question about a case."""
    target = f"{subject.__name__}:"
    return Question(
        loader=f"{target}loader",
        step=f"{target}step" if case.step else "",
        loop=f"{target}loop" if case.loop else "",
        accelerator=case.accelerator(values),
        budget_s=budget_s,
        variables={subject.VARIABLE: subject.describe(case, values)},
    )


def run(case: Case, seed: int, budget_s: float) -> Naming:
    """Diagnose a case that has a planted stage, with values drawn from `seed`."""
    planted = case.planted
    assert planted, f"{case.name} has no planted stage"
    values, started = case.draw(seed), time.monotonic()
    try:
        answer = diagnose(make_question(case, values, budget_s))
        sentence, named = answer.sentence, _find_named(planted, answer.findings)
    except NetpipeError as error:
        sentence, named = str(error), None
    return Naming(
        case=case.name,
        seed=seed,
        values=values,
        planted=str(planted),
        stage=named.stage if named else None,
        resource=named.resource if named else _FAILED,
        is_stage=named is not None and planted.is_stage(named.stage),
        is_resource=named is not None and planted.is_resource(named.resource),
        sentence=sentence,
        why=named.why if named else "",
        elapsed_s=round(time.monotonic() - started, 2),
    )


def _find_named(planted: Planted, findings: Findings) -> Bottleneck:
    """Return the bottleneck, or the largest part of the start if a slow start is planted."""
    start = findings.start_up
    if SLOW_START not in planted.resources or start is None:
        return findings.bottleneck
    part = max(START_PARTS, key=lambda part: vars(start)[part] or 0.0)
    seconds, why = vars(start)[part] or 0.0, start.why_slow()
    resource = SLOW_START if why else "unknown"
    return Bottleneck(START_PARTS[part][0], resource, seconds / start.total_s, why)
