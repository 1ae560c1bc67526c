"""What a session that is timed side by side with another one is asked for."""

from dataclasses import dataclass

from netpipe.measuring.request import MeasureRequest


@dataclass(frozen=True)
class DuetRequest(MeasureRequest):
    """The settings of one side of a duet.

    Attributes:
        quantity: What is timed, a key of `netpipe.gate.metrics.GATED`.
        channel: The file descriptor of the connection to the parent, which gives the orders.
    """

    kind: str = "duet"
    quantity: str = "load_s_per_batch"
    channel: int = -1

    result_key = "duet"

    @property
    def duet_s(self) -> float:
        """Seconds of one duet: several are needed, and half a budget is enough for each."""
        return 0.5 * self.budget_s
