"""The request of a session that diagnoses."""

from dataclasses import dataclass

from netpipe.jobs.request import SessionRequest


@dataclass(frozen=True)
class InvestigationRequest(SessionRequest):
    """The settings of one investigation; its `budget_s` is the longest that it may take.

    Attributes:
        load_s: The fields of the load time that was measured with the step.
    """

    kind: str = "diagnose"
    wanted_s: float = 60.0
    step_s: float | None = None
    load_s: tuple[float, float, float, int] | None = None
