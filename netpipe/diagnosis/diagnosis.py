"""The results of a diagnosis: frozen dataclasses that are passed between processes as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from netpipe.linting.linter import LintReport
from netpipe.results.documents import check_document
from netpipe.results.fields import (
    Amount,
    Count,
    Document,
    Inlined,
    Interval,
    MayBeAbsent,
    Must,
    PositiveCount,
    Text,
    converter,
)
from netpipe.results.measurement import Host, Measurement
from netpipe.results.start_up import JsonStartUp, StartUp
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
    "unknown": "bottleneck unknown",
}
"""The resources that may limit a loader, in words."""


Bounded = Annotated[
    Interval,
    Must(
        "Bounded",
        additionalProperties=False,
        properties={"median": {"minimum": 0}, "n": {"minimum": 0}},
    ),
]


@dataclass(frozen=True)
class Stage:
    """One stage of a loader, measured in the single-thread run."""

    #: The node's name in lint; for a non-Grain loader, its functions, the outermost first.
    name: Text
    node: int | None  #: Node id in the lint graph; None if there is none.
    function: str  #: The user's function in the stage.
    made_at: str  #: file:line; empty if not known.
    #: Where the stage runs in the unmodified loader.
    section: Annotated[str, Literal["workers", "threads", "trainer"]]
    #: Wall seconds, excluding the stages that it reads from; cpu_s_per_batch likewise.
    s_per_batch: Amount
    cpu_s_per_batch: Amount
    fraction: Amount  #: Share of the single-thread time; near 1, the stage takes almost all.
    #: How the stage was measured: by timing every call, or by sampling stacks.
    by: Annotated[str, Literal["timing", "sampling"]]
    #: The single-thread time when the stage returns its earlier results; None if not measured.
    without_s_per_batch: Bounded | None = None


@dataclass(frozen=True)
class Intervention:
    """A change to the loader, measured in turns with the run that it changes."""

    name: Annotated[str, Literal["without-stage", "two-threads", "two-processes", "tiny-payload"]]
    what: Text
    before_s_per_batch: Bounded | None
    after_s_per_batch: Bounded | None
    #: Batches per second with the change over those without; above 1, the change helps. None if
    #: the change was not made.
    speedup: Bounded | None
    says: str

    @property
    def label(self) -> str:
        """The name as words: `two threads`."""
        return self.name.replace("-", " ")

    @property
    def clear_factor(self) -> float:
        """`clear_factor` of the speedup; 0 if the change was not made."""
        return 0.0 if self.speedup is None else clear_factor(self.speedup)

    @property
    def effect(self) -> str:
        """The change and its speedup, with the interval."""
        return f"{self.what}: {format_ratio_interval(self.speedup)} times as fast"


def clear_factor(ratio: Interval) -> float:
    """Return the bound of a ratio that is nearer to 1, inverted below 1; 0 without clear effect."""
    bound = ratio.low if ratio.median > 1 else 1 / ratio.high
    return bound if bound > 1 + MIN_EFFECT_FRACTION else 0.0


@dataclass(frozen=True)
class Bottleneck:
    """The stage and the resource that limit the loader."""

    stage: str | None  #: Name of the stage; None if no stage limits the loader.
    #: gil: the stage computes while holding Python's lock. waiting: it neither computes nor reads
    #: from a local disk.
    resource: Annotated[str, Literal[*RESOURCES]]
    fraction: Amount  #: Share of the loading time.
    why: str  #: The figures that show it.


@dataclass(frozen=True)
class Prediction:
    """Whether a change would help, according to a model of the loader."""

    change: Text  #: In words that can follow "with": "3 workers".
    kind: Annotated[str, Literal["no-threads", "reads-in-flight", "workers", "without-stage"]]
    #: The load time after the change; unclear: the model predicts a change below 5%.
    expected: Annotated[str, Literal["faster", "slower", "unclear"]]


@dataclass(frozen=True)
class Verification:
    """The measured effect of a change."""

    change: Text
    kind: str
    measured_s_per_batch: Bounded
    before_s_per_batch: Bounded
    says: str


@dataclass(frozen=True)
class ReadsInFlight:
    """The time of a read with `in_flight` reads in flight, all in this process."""

    in_flight: PositiveCount
    s_per_read: Amount
    reads_per_s: Amount


@dataclass(frozen=True)
class Reads:
    """How the time of a read changes with the number of reads in flight, if reads wait.

    Attributes:
        in_flight: Reads that the unmodified loader has in flight, in all processes.
        bytes_per_read: None if the wait is not in the source; a read is then an element.
        limit: The resource that limits reading with the most reads in flight; "" if not clear.
    """

    in_flight: PositiveCount
    levels: tuple[ReadsInFlight, ...]
    bytes_per_read: Amount | None
    limit: Annotated[str, Literal["read-latency", "read-bandwidth", "read-throttling", ""]]


@dataclass(frozen=True)
class Findings:
    """The findings of an investigation session."""

    load_s_per_batch: Bounded  #: Wall seconds of a batch of the unmodified loader, pulled flat out.
    load_cpu_s_per_batch: Bounded  #: CPU seconds of such a batch, all processes.
    #: How the single-thread run was made. rebuilt: without workers and threads; as-it-is: the
    #: unmodified loader.
    lane: Annotated[str, Literal["rebuilt", "as-it-is"]]
    lane_s_per_batch: Bounded  #: Wall seconds of a batch of the single-thread run.
    lane_cpu_s_per_batch: Bounded  #: CPU seconds of such a batch.
    workers: Count  #: Worker processes of the loader.
    threads: Count  #: Reader threads of each of its processes.
    stages: tuple[Stage, ...]  #: Stages of the single-thread run, the slowest first.
    bottleneck: Bottleneck
    #: Changes to the loader, the clearest effect first.
    interventions: tuple[Intervention, ...]
    what_if: tuple[Prediction, ...]  #: Changes, and whether they would help.
    #: The change that was tried in the same run; None if none was tried.
    verified: Verification | None
    unverified: str  #: Why no change was tried; empty if one was.
    elapsed_s: Amount  #: Seconds of the diagnosis, without the measurement.
    remarks: MayBeAbsent[tuple[Text, ...]] = ()  #: The parts that were skipped, and why.
    reads: MayBeAbsent[Reads | None] = None  #: None if reads do not wait, or were not measured.
    #: The fewest workers that keep the step fed, 0 for none; None if not known, or without a step.
    enough_workers: MayBeAbsent[Count | None] = None
    #: The stand-ins that the loader read from; its times are then derived. Empty if none.
    storage: MayBeAbsent[str] = ""
    #: Seconds of each part of the first start and of the import.
    start_up: MayBeAbsent[Annotated[StartUp | None, JsonStartUp | None]] = None

    def to_document(self) -> dict[str, Any]:
        """Return the findings as plain JSON values."""
        document: dict[str, Any] = converter().unstructure(self)
        return document


@dataclass(frozen=True)
class Diagnosis(Document):
    """The document of `netpipe diagnose --json`."""

    SCHEMA = SCHEMA

    sentence: Text  #: The summary of the diagnosis.
    findings: Inlined[Findings]
    measurement: Measurement | None  #: The loader with its step; None without a step.
    lint: Annotated[Mapping[str, Any], LintReport]
    host: Host
    versions: Mapping[str, str]

    def to_document(self) -> dict[str, Any]:
        """Return the `netpipe.diagnosis/1` document."""
        document, measured = super().to_document(), self.measurement
        document |= document.pop("findings")
        document["measurement"] = measured and measurement_document(measured, judge(measured))
        check_document(document, "diagnosis.1", "netpipe diagnose")
        return document
