"""What a session that measures is asked for, and what it measures."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from netpipe.device.emulated_names import Flops, check_flops
from netpipe.errors import MisuseError
from netpipe.jobs.request import SessionRequest


@dataclass(frozen=True)
class MeasureRequest(SessionRequest):
    """The settings of one measurement.

    Attributes:
        flops_per_step: FLOPs of a step on the host's batch; None: the step or XLA knows them.
        mfu: The fraction of that peak that a step reaches.
        trace: The folder in which to keep a profiler's trace of some real steps; "" for none.
        trace_name: What was traced, for the trace's file name.
        decided_by: The function, as `module:name`, that ends the rounds when it returns True for
            the measurement so far; "" if they are to use the whole budget.
    """

    kind: str = "measure"
    flops_per_step: float | None = None
    mfu: float = 0.4
    trace: str = ""
    trace_name: str = ""
    decided_by: str = ""

    result_key = "measurement"

    def __post_init__(self) -> None:
        """Check the values that a user can set."""
        super().__post_init__()
        if self.flops_per_step is not None:
            check_flops(self.flops_per_step)
        if not 0 < self.mfu <= 1:
            raise MisuseError(f"the MFU must be above 0, and at most 1; found {self.mfu:g}")


@dataclass(frozen=True)
class Factories:
    """What the user provides, and by keyword what netpipe adds.

    Attributes:
        step: Makes `(state, step)`; optional with an emulated accelerator.
        loop: The trainer's own loop; by default the harness's.
        synthetic: Makes the batches that the step is timed on alone, at least two; by default the
            loader's first ones.
        fingerprint: Names the data and the configuration; only equal ones are compared.
        flops_per_step: As in `MeasureRequest`.
        assumed_mfu: The MFU that the time of an emulated step follows from.
        import_s: Seconds that importing the factories took; None if not known, as in a test.
    """

    loader: Callable[[], Any]
    step: Callable[[], Any] | None = None
    loop: Callable[..., object] | None = None
    synthetic: Callable[[], Any] | None = None
    fingerprint: str = ""
    flops_per_step: Flops = None
    assumed_mfu: float | None = field(default=None, kw_only=True)
    import_s: float | None = field(default=None, kw_only=True)

    @property
    def flops(self) -> Flops:
        """`flops_per_step`; by default the attribute of `step` of this name."""
        of_step: Flops = getattr(self.step, "flops_per_step", None)
        return of_step if self.flops_per_step is None else self.flops_per_step
