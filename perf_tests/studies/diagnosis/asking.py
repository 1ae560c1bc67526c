"""Runs the command `netpipe diagnose`, and reads its answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cattrs.errors import BaseValidationError

from netpipe.diagnosis.diagnosis import Findings
from netpipe.results.fields import converter
from perf_tests.studies.children import ChildError, run_for_json

# Time beyond the budget for starting, tracing a step and ending.
_STARTING_S: Final = 120.0
_MAX_BUDGETS: Final = 4.0


@dataclass(frozen=True)
class Question:
    """The targets of a diagnosis, their environment variables, and options."""

    loader: str
    variables: Mapping[str, str]
    budget_s: float
    accelerator: str = ""
    step: str = ""
    loop: str = ""

    @property
    def arguments(self) -> list[str]:
        """The arguments of `python`."""
        options = {
            "--loader": self.loader,
            "--step": self.step,
            "--loop": self.loop,
            "--accelerator": self.accelerator,
            "--budget": f"{self.budget_s:g}",
        }
        given = [word for name, value in options.items() if value for word in (name, value)]
        return ["-m", "netpipe", "diagnose", *given, "--json"]


@dataclass(frozen=True)
class Answer:
    """The summary of a diagnosis, and all findings."""

    sentence: str
    findings: Findings


def diagnose(question: Question) -> Answer:
    """Run `netpipe diagnose` in a fresh process.

    Raises:
        ChildError: It failed, exceeded its budget by far, or did not print a diagnosis.
    """
    limit_s = _STARTING_S + _MAX_BUDGETS * question.budget_s
    return parse_answer(run_for_json(question.arguments, question.variables, limit_s))


def parse_answer(document: Mapping[str, Any]) -> Answer:
    """Read a `netpipe.diagnosis/1` document.

    Raises:
        ChildError: It is another document.
    """
    try:
        return Answer(document["sentence"], converter().structure(document, Findings))
    except (KeyError, BaseValidationError) as error:
        raise ChildError(f"printed no netpipe.diagnosis/1: {error!r}") from error
