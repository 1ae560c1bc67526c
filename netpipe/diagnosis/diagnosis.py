"""What a diagnosis holds: plain, frozen numbers that travel as JSON."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from netpipe.results.documents import check_document
from netpipe.results.measurement import Host, Interval, Measurement, converter
from netpipe.results.units import format_ratio_interval, format_seconds
from netpipe.verdict.decision import judge
from netpipe.verdict.report import measurement_document

SCHEMA: Final = "netpipe.diagnosis/1"

NO_EFFECT: Final = 0.05
"""A ratio whose interval reaches closer to 1 than this is no clear difference."""

OF_THE_LOADER: Final = ("tiny-payload", "half-the-cores")
"""Interventions that are measured in turns with the loader as it is."""

RESOURCES: Final = (
    "cpu",
    "gil",
    "disk",
    "memory",
    "process-transfer",
    "device-transfer",
    "waiting",
    "none",
    "unknown",
)


@dataclass(frozen=True)
class Stage:
    """One stage of a loader, as it runs in one thread of one process.

    Attributes:
        name: As lint names the node, or the functions of a loader that is not Grain's, the
            outermost first.
        node: Its id in the graph of the lint; None where there is no graph.
        function: The user's function in it, "" for none.
        made_at: Where the user's code made it, as file:line; "" where that is not known.
        section: Where it runs in the loader as it is: "workers", "threads" or "trainer".
        s_per_batch: Wall seconds of its own, without the stages that it reads from.
        cpu_s_per_batch: CPU seconds of those.
        fraction: Its share of the lane's time; near 1: all else hardly counts.
        by: How it was measured: "timing" of every call, or "sampling" of stacks.
        without_s_per_batch: The lane's time where the stage gives back what it gave before; None
            where that was not measured.
    """

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

    @property
    def working_fraction(self) -> float:
        """Share of its time that it computes; near 0: it waits."""
        return min(1.0, self.cpu_s_per_batch / self.s_per_batch) if self.s_per_batch else 1.0


@dataclass(frozen=True)
class Intervention:
    """One change made for the sake of knowledge, measured in turns with the loader unchanged.

    Attributes:
        name: "cached-bytes", "without-stage", "two-threads", "two-processes", "tiny-payload" or
            "half-the-cores".
        what: What was changed, as a sentence.
        before_s_per_batch: Without the change.
        after_s_per_batch: With it.
        speedup: Batches a second with it over those without; above 1: it helps.
        says: What follows, or why it was not made.
    """

    name: str
    what: str
    before_s_per_batch: Interval | None
    after_s_per_batch: Interval | None
    speedup: Interval | None
    says: str

    @property
    def clear_factor(self) -> float:
        """How far the interval stays away from no difference, as a factor; 0: not clear."""
        return 0.0 if self.speedup is None else clear_factor(self.speedup)

    @property
    def effect(self) -> str:
        """What was changed and what it gave, with the interval."""
        return f"{self.what}: {format_ratio_interval(self.speedup)} times as fast"


def clear_factor(ratio: Interval) -> float:
    """Return by what factor at least a ratio differs from 1; 0: it may not differ at all."""
    bound = ratio.low if ratio.median > 1 else 1 / ratio.high
    return bound if bound > 1 + NO_EFFECT else 0.0


def scaled(interval: Interval, factor: float) -> Interval:
    """Return an interval times a factor."""
    return replace(
        interval,
        median=interval.median * factor,
        low=interval.low * factor,
        high=interval.high * factor,
    )


@dataclass(frozen=True)
class Bottleneck:
    """What limits the loader.

    Attributes:
        stage: The name of a stage; None where no stage does.
        resource: One of `RESOURCES`.
        fraction: The stage's share of the time of what limits.
        why: The figures that say so.
    """

    stage: str | None
    resource: str
    fraction: float
    why: str


@dataclass(frozen=True)
class Prediction:
    """What a change would give.

    Attributes:
        change: "3 workers", in words that follow "with".
        kind: "no-threads", "workers", "without-stage", "faster-stage", "smaller-batch",
            "narrower-dtype" or "no-transfer".
        load_s_per_batch: Seconds of a batch then.
        headroom: The step's time over it; None without a step.
    """

    change: str
    kind: str
    load_s_per_batch: Interval
    headroom: Interval | None = None


@dataclass(frozen=True)
class Need:
    """What an accelerator would need of this host.

    Attributes:
        accelerator: Its name.
        step_s: Its step time, derived from its peak.
        batches_per_s: What it would take.
        workers: Worker processes that keep it fed.
        cores: Cores that loading would keep busy.
        headroom: Its step time over the load time as it is.
    """

    accelerator: str
    step_s: float
    batches_per_s: float
    workers: int
    cores: float
    headroom: float


@dataclass(frozen=True)
class Verification:
    """A prediction, and what the same change gave when it was made in the same run.

    Attributes:
        change: What was changed.
        kind: As of a `Prediction`.
        predicted_s_per_batch: Seconds of a batch as predicted.
        measured_s_per_batch: The same as measured.
        before_s_per_batch: Without the change, measured in turns with it.
        error_fraction: Predicted over measured, less 1.
        says: The outcome, as a sentence.
    """

    change: str
    kind: str
    predicted_s_per_batch: Interval
    measured_s_per_batch: Interval
    before_s_per_batch: Interval
    error_fraction: float
    says: str

    @classmethod
    def of(
        cls, change: str, kind: str, predicted: Interval, measured: Interval, before: Interval
    ) -> "Verification":
        """Return the comparison of a prediction with its measurement."""
        error = predicted.median / measured.median - 1
        says = (
            f"{change}: predicted {format_seconds(predicted.median)}, measured "
            f"{format_seconds(measured.median)} ({error:+.0%}) instead of "
            f"{format_seconds(before.median)}"
        )
        return cls(change, kind, predicted, measured, before, error, says)


@dataclass(frozen=True)
class Findings:
    """All that a session found out about a loader.

    Attributes:
        load_s_per_batch: The loader as it is, pulled flat out.
        load_cpu_s_per_batch: CPU seconds of that, all processes.
        lane: What a lane is: "rebuilt", the pipeline without workers and threads, or "as-it-is".
        lane_s_per_batch: One lane, in one thread of one process.
        lane_cpu_s_per_batch: CPU seconds of that.
        workers: Worker processes of the loader as it is.
        threads: Reader threads of each of its processes.
        stages: The largest first.
        bottleneck: What limits.
        interventions: All that were tried.
        what_if: All predictions.
        verified: The one that was made; None where none could be.
        unverified: Why not, "" where one was.
        elapsed_s: What all of it took.
        remarks: What could not be done, and why.
    """

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

    def held_to(self, load_s: Interval) -> "Findings":
        """Return the same with one figure for the loader as it is.

        What changes give was measured in turns with it, or predicted from it: the ratios stay.

        Args:
            load_s: The best measured seconds of a batch.
        """
        factor = load_s.median / self.load_s_per_batch.median
        tried = self.verified
        return replace(
            self,
            load_s_per_batch=load_s,
            interventions=tuple(_held_to(one, load_s, factor) for one in self.interventions),
            what_if=tuple(
                replace(
                    one,
                    load_s_per_batch=scaled(one.load_s_per_batch, factor),
                    headroom=one.headroom and scaled(one.headroom, 1 / factor),
                )
                for one in self.what_if
            ),
            verified=tried
            and Verification.of(
                tried.change,
                tried.kind,
                scaled(tried.predicted_s_per_batch, factor),
                scaled(tried.measured_s_per_batch, factor),
                load_s,
            ),
        )

    def to_document(self) -> dict[str, Any]:
        """Return them as plain JSON values."""
        document: dict[str, Any] = converter().unstructure(self)
        return document


def _held_to(one: Intervention, load_s: Interval, factor: float) -> Intervention:
    after_s = one.after_s_per_batch
    if one.name not in OF_THE_LOADER or after_s is None:
        return one
    return replace(one, before_s_per_batch=load_s, after_s_per_batch=scaled(after_s, factor))


def findings_from(document: Mapping[str, Any]) -> Findings:
    """Read what `Findings.to_document` returned."""
    return converter().structure(document, Findings)


@dataclass(frozen=True)
class Diagnosis:
    """A loader's findings beside what a step needs.

    Attributes:
        sentence: What a person reads first.
        findings: Of the loader.
        needs: Of each accelerator, where the FLOPs of a step are known.
        measurement: Of the loader with its step; None without one.
        lint: The `netpipe.lint/1` document of the loader.
        host: Where the loader ran.
        versions: Of every package that matters, by name.
    """

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
