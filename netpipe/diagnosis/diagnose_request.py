"""The request of an investigation session."""

from dataclasses import dataclass

from netpipe.jobs.request import SessionRequest


@dataclass(frozen=True)
class InvestigationRequest(SessionRequest):
    """The settings of one investigation, which may take at most `budget_s`.

    Attributes:
        load_s: The load time measured with the step, as the fields of an `Interval`.
    """

    kind: str = "diagnose"
    wanted_s: float = 20.0
    step_s: float | None = None
    load_s: tuple[float, float, float, int] | None = None
