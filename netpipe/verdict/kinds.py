"""A verdict, and the rules that come to it. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from netpipe.results.measurement import Measurement

HEALTHY_KINDS = ("healthy", "at-risk")


@dataclass(frozen=True)
class Verdict:
    """Why training waits.

    Attributes:
        kind: One of the kinds of docs/verdicts.md.
        message: One sentence that says it with its figures.
        evidence: The figures that decided.
        next: What to do about it.
    """

    kind: str
    message: str
    evidence: tuple[str, ...]
    next: str

    def passes(self, measurement: Measurement) -> bool:
        """Return whether a run with this verdict is fine.

        On a CPU device the step and the loader share cores: contention is reported, not failed.
        """
        shared = self.kind == "contention" and measurement.device.shares_host_cores
        return self.kind in HEALTHY_KINDS or shared


Rule = Callable[[Measurement], Verdict | None]
