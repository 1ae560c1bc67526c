"""The kinds of verdicts, and the type `Verdict`. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from netpipe.results.fields import Text
from netpipe.results.measurement import Measurement


class VerdictKind(StrEnum):
    """Why training waits. docs/verdicts.md says what each kind means."""

    HEALTHY = "healthy"
    AT_RISK = "at-risk"
    LOADER_BOUND = "loader-bound"
    MASKED_LOADER_BOUND = "masked-loader-bound"
    FORCED_SYNC = "forced-sync"
    TRANSFER_BOUND = "transfer-bound"
    CONTENTION = "contention"
    JITTER = "jitter"
    NO_OVERLAP = "no-overlap"
    HOST_BOUND = "host-bound"
    RECOMPILING = "recompiling"
    UNEXPLAINED = "unexplained"
    INCONCLUSIVE = "inconclusive"


HEALTHY_KINDS: Final = (VerdictKind.HEALTHY, VerdictKind.AT_RISK)


@dataclass(frozen=True)
class Verdict:
    """Why training waits.

    Attributes:
        message: One sentence with its figures; `judge` puts the kind before it.
        evidence: The figures that the verdict rests on, each as text. A rule returns only its own.
        next: The advice to the user.
    """

    kind: VerdictKind
    message: Text
    evidence: tuple[str, ...]
    next: str

    def passes(self, measurement: Measurement) -> bool:
        """Return whether a run with this verdict passes.

        On a CPU device the step and the loader share cores, so contention does not fail a run.
        """
        is_shared = measurement.device.shares_host_cores
        return self.kind in HEALTHY_KINDS or (self.kind == VerdictKind.CONTENTION and is_shared)
