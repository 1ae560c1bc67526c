"""The answers about a change, and the verdict on it. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from netpipe.results.fields import Amount, Count, Document, Text

Question = Literal["data", "shuffled", "complete", "resumes", "faster", "memory", "start"]
QUESTIONS: Final[tuple[Question, ...]] = get_args(Question)
NOT_COMPARED: Final = "NOT_COMPARED"

_FINE: Final = ("IDENTICAL", "COMPLETE", "EXACT", "AS_BEFORE", "NO_WORSE", "PASS", "IMPROVED")
_OPEN: Final = (NOT_COMPARED, "INCONCLUSIVE")
_WORSE: Final = (
    "SAME_ELEMENTS", "DIFFERENT", "WORSE", "LOST", "REPEATED", "DIFFERS", "REGRESSED", "NOT_FASTER"
)  # fmt: skip
UNACCEPTED: Final = (*_OPEN, *_WORSE)
"""The outcomes that a project can declare."""


@dataclass(frozen=True)
class Difference:
    """The first batch that differs between the versions, and the elements over all batches."""

    batch: Count  #: Its number, from 0.
    leaf: str  #: The first leaf that differs; empty if only one version has the batch.
    how: str  #: One of leaves, dtype, shape, values, end.
    #: Mean number of places by which elements moved; null if the elements are not the same.
    displacement: Amount | None


@dataclass(frozen=True)
class Check:
    """The answer to one question about a change."""

    question: Question
    outcome: Text
    reason: str
    difference: Difference | None = None  #: null unless the data differ.
    #: The deciding figure as a multiple of the base's, worse above 1; null without one.
    worse_ratio: Amount | None = None
    declared: str = ""  #: Why the project accepts the outcome; empty if it does not.

    @property
    def status(self) -> Literal["fine", "open", "worse"]:
        """Whether nothing is worse; "open" if the check was not made, or decided nothing."""
        if self.declared or self.outcome in _FINE:
            return "fine"
        return "open" if self.outcome in _OPEN else "worse"


@dataclass(frozen=True)
class Judgement(Document):
    """Whether a change may go in; `netpipe judge --json` prints it."""

    SCHEMA = "netpipe.judgement/1"

    verdict: Literal["ACCEPTED", "REFUSED", "UNDECIDED"]
    decisive: Sequence[Question]  #: The questions whose answers are worse, or else are open.
    base: Text  #: The other version.
    loader: Text  #: The loader's target.
    checks: Sequence[Check]


def judge_checks(checks: Sequence[Check], base: str, loader: str) -> Judgement:
    """Refuse a change if a check is worse; accept it only if all are fine."""
    worse, left_open = (
        [check.question for check in checks if check.status == status]
        for status in ("worse", "open")
    )
    verdict: Literal["ACCEPTED", "REFUSED", "UNDECIDED"] = "ACCEPTED"
    if worse or left_open or not checks:
        verdict = "REFUSED" if worse else "UNDECIDED"
    return Judgement(verdict, worse or left_open, base, loader, checks)


def declare(check: Check, reasons: "dict[str, str]") -> Check:
    """Return a check whose outcome the project accepts, if it does and the outcome is not fine."""
    why = reasons.get(f"{check.question} {check.outcome}", "")
    return replace(check, declared=why) if check.status != "fine" else check
