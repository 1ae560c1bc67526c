"""The request of a session that measures throughput."""

from dataclasses import dataclass

from netpipe.jobs.request import SessionRequest


@dataclass(frozen=True)
class ThroughputRequest(SessionRequest):
    """The settings of one run; `budget_s` is the longest that the run may take after the start.

    Attributes:
        seconds: How long to measure the steady state.
        workers: Number of workers for the loader; None: the loader's own number.
    """

    kind: str = "throughput"
    seconds: float = 4.0
    workers: int | None = None
