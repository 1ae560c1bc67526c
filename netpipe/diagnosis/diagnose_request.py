"""What a session that diagnoses is asked for."""

from dataclasses import dataclass

from netpipe.jobs.request import SessionRequest


@dataclass(frozen=True)
class InvestigationRequest(SessionRequest):
    """The settings of one investigation; its `budget_s` is the longest that it may take.

    Attributes:
        target: Names the loader factory, so that a second process can import it.
        load_s: The fields of the load time that was measured with that step.
    """

    kind: str = "diagnose"
    target: str = ""
    wanted_s: float = 60.0
    step_s: float | None = None
    load_s: tuple[float, float, float, int] | None = None
