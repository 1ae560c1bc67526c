"""`netpipe diagnose`, asked from outside as a person would, and what it says."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from cattrs.errors import BaseValidationError

from netpipe.diagnosis.diagnosis import Findings, findings_from
from perf_tests.studies.diagnosis.children import ChildError, run_for_json

_STARTING_S: Final = 120.0  # for starting, tracing a step and ending, beside the budget
_MOST_OF_BUDGET: Final = 4.0


@dataclass(frozen=True)
class Question:
    """What diagnose is asked.

    Attributes:
        loader: The target.
        variables: Of the environment that the target reads.
        budget_s: Seconds it may measure for.
        accelerator: Its name; "" for none.
        step: The target of a step; "" for none.
        loop: The target of a loop; "" for none.
    """

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
    """What diagnose said.

    Attributes:
        sentence: What a person reads first.
        findings: All of the loader.
    """

    sentence: str
    findings: Findings


def diagnosed(question: Question) -> Answer:
    """Run `netpipe diagnose` in a fresh process.

    Raises:
        ChildError: It failed, took far longer than its budget, or printed no diagnosis.
    """
    limit_s = _STARTING_S + _MOST_OF_BUDGET * question.budget_s
    return answer_from(run_for_json(question.arguments, question.variables, limit_s))


def answer_from(document: Mapping[str, Any]) -> Answer:
    """Read a `netpipe.diagnosis/1` document.

    Raises:
        ChildError: It is none.
    """
    try:
        return Answer(document["sentence"], findings_from(dict(_of_loader(document))))
    except (KeyError, BaseValidationError) as error:
        raise ChildError(f"printed no netpipe.diagnosis/1: {error!r}") from error


def _of_loader(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for field in fields(Findings):
        yield field.name, document[field.name]
