"""Questions to `netpipe diagnose`, which runs as a person would run it, and its answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from cattrs.errors import BaseValidationError

from netpipe.diagnosis.diagnosis import Findings, findings_from
from perf_tests.studies.children import ChildError, run_for_json

_STARTING_S: Final = 120.0  # for starting, tracing a step and ending, beside the budget
_MAX_BUDGETS: Final = 4.0


@dataclass(frozen=True)
class Question:
    """What diagnose is asked: targets, the environment variables that they read, its options."""

    loader: str
    variables: Mapping[str, str]
    budget_s: float
    accelerator: str = ""
    step: str = ""
    loop: str = ""

    @property
    def arguments(self) -> list[str]:
        """The command line, after `python`."""
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
    """The first sentence of a diagnosis, and all findings about the loader."""

    sentence: str
    findings: Findings


def diagnose(question: Question) -> Answer:
    """Run `netpipe diagnose` in a fresh process.

    Raises:
        ChildError: It failed, took far longer than its budget, or printed no diagnosis.
    """
    limit_s = _STARTING_S + _MAX_BUDGETS * question.budget_s
    return parse_answer(run_for_json(question.arguments, question.variables, limit_s))


def parse_answer(document: Mapping[str, Any]) -> Answer:
    """Read a `netpipe.diagnosis/1` document.

    Raises:
        ChildError: It is none.
    """
    try:
        return Answer(document["sentence"], findings_from(document))
    except (KeyError, BaseValidationError) as error:
        raise ChildError(f"printed no netpipe.diagnosis/1: {error!r}") from error
