"""The request of a session that measures."""

from dataclasses import dataclass
from typing import Literal

from netpipe.device.emulated_names import check_flops
from netpipe.errors import MisuseError
from netpipe.jobs.request import SessionRequest


@dataclass(frozen=True)
class MeasureRequest(SessionRequest):
    """The settings of one measurement.

    Attributes:
        flops_per_step: FLOPs of a step on the host's batch; None: the step's own figure, or XLA's.
        mfu: The assumed MFU of an emulated accelerator such as emulated:h100.
        trace: The folder for a profiler's trace of some real steps; "" for no trace.
        trace_name: The name of the traced test, for the trace's file name; "" for no name.
        stopping_rule: When the rounds may end early: with "budget" once the intervals are narrow;
            with "compared" also after half of the budget, on cores that step and loader share;
            with "clear" once the measurement is clearly healthy.
    """

    kind: str = "measure"
    flops_per_step: float | None = None
    mfu: float = 0.4
    trace: str = ""
    trace_name: str = ""
    stopping_rule: Literal["budget", "compared", "clear"] = "budget"

    def __post_init__(self) -> None:
        """Check the values that a user can set."""
        super().__post_init__()
        if self.flops_per_step is not None:
            check_flops(self.flops_per_step)
        if not 0 < self.mfu <= 1:
            raise MisuseError(f"the MFU must be above 0, and at most 1; found {self.mfu:g}")
