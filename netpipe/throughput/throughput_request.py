"""The request of a session that measures throughput."""

from dataclasses import dataclass

from netpipe.jobs.request import SessionRequest


@dataclass(frozen=True)
class ThroughputRequest(SessionRequest):
    """The settings of one run; its `budget_s` is the longest that it may take after the start.

    Attributes:
        seconds: How long to measure the steady state.
        workers: Number of workers for the loader; None: its own.
        same_batches: Number of first batches that the parent compares with another loader's.
    """

    kind: str = "throughput"
    seconds: float = 4.0
    workers: int | None = None
    same_batches: int = 0
