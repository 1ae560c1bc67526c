"""The request of a lint session."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from netpipe.errors import MisuseError
from netpipe.jobs.request import FAREWELL_S, SessionRequest

INTENTS: Final = ("throughput", "reproducible")
LINT_OVERTIME_S: Final = 20.0
"""Seconds beyond the budget of --prove or --try for starting workers and ending hung ones."""


@dataclass(frozen=True)
class LintRequest(SessionRequest):
    """The settings of one lint session.

    `budget_s` applies to proofs and to trials separately; `start_limit_s` is for importing and
    building the pipeline. `silences` maps a rule's name, or "RULE of FUNCTION", to the reason.
    """

    kind: str = "lint"
    intent: str = "throughput"
    silences: Mapping[str, str] = field(default_factory=dict)
    proves: bool = False
    tries: bool = False

    def __post_init__(self) -> None:
        """Check the values that a user can set; raise a MisuseError if one is out of range."""
        super().__post_init__()
        if self.intent not in INTENTS:
            raise MisuseError(f"the intent must be {' or '.join(INTENTS)}; found {self.intent!r}")

    @property
    def _own_limit_s(self) -> float:
        experiments = self.proves + self.tries
        return self.start_limit_s + experiments * (self.budget_s + LINT_OVERTIME_S) + FAREWELL_S
