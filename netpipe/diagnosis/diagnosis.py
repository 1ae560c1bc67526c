"""The results of a diagnosis, passed between processes as JSON.

`netpipe/schemas/diagnosis.1.json` describes the fields.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

from netpipe.results.documents import check_document
from netpipe.results.measurement import Host, Interval, Measurement, converter
from netpipe.results.start_up import StartUp
from netpipe.results.units import format_ratio_interval
from netpipe.verdict.decision import judge
from netpipe.verdict.document import measurement_document

SCHEMA: Final = "netpipe.diagnosis/1"

MIN_EFFECT_FRACTION: Final = 0.05
"""A ratio is clearly different from 1 if its whole interval is further from 1 than this."""

RESOURCES: Final = {
    "cpu": "bound by the CPU",
    "gil": "bound by the GIL",
    "disk": "bound by the disk",
    "memory": "bound by the memory that all cores share",
    "process-transfer": "bound by sending between processes",
    "device-transfer": "bound by copying to the device",
    "read-latency": "bound by the latency of reads",
    "read-bandwidth": "bound by the bandwidth of the storage",
    "read-throttling": "bound by a limit on requests to the storage",
    "waiting": "waiting for storage elsewhere, a lock or a sleep",
    "none": "no bottleneck",
    "unknown": "bottleneck unknown",
}
"""The resources that may limit a loader, in words."""

NO_CAUSES: Final = ("none", "unknown")

_COULD_NOT_BE_TRIED: Final = " could not be tried: "


@dataclass(frozen=True)
class Stage:
    """One stage of a loader, measured in the single-thread run."""

    name: str
    node: int | None
    function: str
    made_at: str
    section: str
    s_per_batch: float
    cpu_s_per_batch: float
    fraction: float
    by: str
    without_s_per_batch: Interval | None = None


@dataclass(frozen=True)
class Intervention:
    """A change of the loader, measured in turns with the unmodified loader."""

    name: str
    what: str
    before_s_per_batch: Interval | None
    after_s_per_batch: Interval | None
    speedup: Interval | None
    says: str

    @property
    def clear_factor(self) -> float:
        """`clear_factor` of the speedup; 0 if the change was not made."""
        return 0.0 if self.speedup is None else clear_factor(self.speedup)

    @property
    def effect(self) -> str:
        """The change and its speedup, with the interval."""
        return f"{self.what}: {format_ratio_interval(self.speedup)} times as fast"


def clear_factor(ratio: Interval) -> float:
    """Return the bound of a ratio nearest to 1, inverted below 1; 0 if there is no clear effect."""
    bound = ratio.low if ratio.median > 1 else 1 / ratio.high
    return bound if bound > 1 + MIN_EFFECT_FRACTION else 0.0


@dataclass(frozen=True)
class Bottleneck:
    """The stage that limits the loader, if any, and its resource, one of `RESOURCES`.

    `fraction` is relative to the loading time.
    """

    stage: str | None
    resource: str
    fraction: float
    why: str


@dataclass(frozen=True)
class Prediction:
    """The load time with a change, and the headroom if there is a step.

    The change is named in words that can follow "with": "3 workers".
    """

    change: str
    kind: str
    load_s_per_batch: Interval
    headroom: Interval | None = None


@dataclass(frozen=True)
class Need:
    """The needs of an accelerator; its step time is derived from its peak FLOPs."""

    accelerator: str
    step_s: float
    batches_per_s: float
    workers: int
    cores: float
    headroom: float


@dataclass(frozen=True)
class Verification:
    """A prediction, and a measurement of the same change; the error is predicted/measured - 1."""

    change: str
    kind: str
    predicted_s_per_batch: Interval
    measured_s_per_batch: Interval
    before_s_per_batch: Interval
    error_fraction: float
    says: str


@dataclass(frozen=True)
class ReadsInFlight:
    """The time of reads with a number of them in flight, in one process."""

    in_flight: int
    s_per_read: float
    reads_per_s: float


@dataclass(frozen=True)
class Reads:
    """How reads that wait scale.

    Attributes:
        in_flight: Reads that the unmodified loader has at the same time, in all processes.
        bytes_per_read: None if the source is not what waits; a read is then an element.
        limit: The resource that limits the most reads in flight; "" if that is not clear.
    """

    in_flight: int
    levels: tuple[ReadsInFlight, ...]
    bytes_per_read: float | None
    limit: str


@dataclass(frozen=True)
class Untried:
    """Why no prediction was tried, and the change that was chosen, if there was one."""

    why: str
    change: str = ""

    def __str__(self) -> str:
        return f"{self.change}{_COULD_NOT_BE_TRIED}{self.why}" if self.change else self.why


@dataclass(frozen=True)
class Findings:
    """The findings of the session that investigates a loader."""

    load_s_per_batch: Interval
    load_cpu_s_per_batch: Interval
    lane: str
    lane_s_per_batch: Interval
    lane_cpu_s_per_batch: Interval
    workers: int
    threads: int
    stages: tuple[Stage, ...]
    bottleneck: Bottleneck
    interventions: tuple[Intervention, ...]
    what_if: tuple[Prediction, ...]
    verified: Verification | None
    unverified: str
    elapsed_s: float
    remarks: tuple[str, ...] = ()
    reads: Reads | None = None
    storage: str = ""
    start_up: StartUp | None = None

    @property
    def why_untried(self) -> str:
        """Why no prediction was tried, without the name of the change that was chosen."""
        return self.unverified.rpartition(_COULD_NOT_BE_TRIED)[2]

    def to_document(self) -> dict[str, Any]:
        """Return the findings as plain JSON values."""
        document: dict[str, Any] = converter().unstructure(self)
        return document


def findings_from(document: Mapping[str, Any]) -> Findings:
    """Read the findings in a document, which may have other fields."""
    names = (field.name for field in fields(Findings) if field.name in document)
    return converter().structure({name: document[name] for name in names}, Findings)


@dataclass(frozen=True)
class Diagnosis:
    """The findings of all sessions about a loader."""

    sentence: str
    findings: Findings
    needs: tuple[Need, ...]
    measurement: Measurement | None
    lint: Mapping[str, Any]
    host: Host
    versions: Mapping[str, str]

    def to_document(self) -> dict[str, Any]:
        """Return the `netpipe.diagnosis/1` document."""
        plain, measured = converter(), self.measurement
        document = {
            "schema": SCHEMA,
            "sentence": self.sentence,
            **self.findings.to_document(),
            "needs": plain.unstructure(self.needs),
            "measurement": measured and measurement_document(measured, judge(measured)),
            "lint": self.lint,
            "host": plain.unstructure(self.host),
            "versions": dict(self.versions),
        }
        check_document(document, "diagnosis.1", "netpipe diagnose")
        return document
