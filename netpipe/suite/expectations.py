"""What a performance test asserts of a measurement; every failure names its figures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from netpipe.errors import (
    InconclusiveError,
    MisuseError,
    PipelineOrderError,
    PipelineTooSlowError,
)
from netpipe.results.measurement import Measurement
from netpipe.results.units import format_ratio_interval, format_seconds_interval
from netpipe.verdict.decision import judge
from netpipe.verdict.kinds import VerdictKind
from netpipe.verdict.quantities import EPSILON


@dataclass(frozen=True)
class Limits:
    """What a pipeline must reach.

    Attributes:
        headroom: S0 / L must be at least this.
        stall_fraction: (R - S0) / R must be at most this.
    """

    headroom: float = 1.0
    stall_fraction: float = EPSILON

    def __post_init__(self) -> None:
        """Check both limits.

        Raises:
            MisuseError: One is no number, or outside its range.
        """
        for name, most in (("headroom", inf), ("stall_fraction", 1.0)):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not 0 <= value < most:
                raise MisuseError(
                    f"the limit {name} must be a number from 0 to below {most:g}; found {value!r}"
                )


def expect_loading_below_step(measurement: Measurement, limits: Limits) -> None:
    """Assert that loading a batch takes less time than the step on resident batches.

    Raises:
        PipelineTooSlowError: It does not.
        InconclusiveError: The interval leaves it open.
    """
    __tracebackhide__ = True
    headroom = measurement.headroom
    message = (
        f"loading a batch takes {format_seconds_interval(measurement.load_s_per_batch)}, the "
        f"synthetic "
        f"step {format_seconds_interval(measurement.step_s)}: headroom "
        f"{format_ratio_interval(headroom)}, "
        f"at least {limits.headroom:.2f} asked for"
    )
    if headroom.high < limits.headroom:
        raise PipelineTooSlowError(f"loader too slow: {message}")
    if headroom.low < limits.headroom:
        raise InconclusiveError(f"inconclusive: loader too slow or not: {message}")
    is_void = not (measurement.drained and measurement.within_epochs and measurement.batch_bytes)
    if is_void:
        raise InconclusiveError(judge(measurement).message)


def expect_no_stall(measurement: Measurement, limits: Limits) -> None:
    """Assert that the real step takes no longer than the step on resident batches.

    On a CPU device, which shares its cores with the loader, only the verdict counts.

    Raises:
        PipelineTooSlowError: Training waits; the message says why.
        InconclusiveError: The measurement leaves it open.
    """
    __tracebackhide__ = True
    verdict = judge(measurement)
    told = "\n".join((verdict.message, *verdict.evidence, f"next: {verdict.next}"))
    if verdict.kind == VerdictKind.INCONCLUSIVE:
        raise InconclusiveError(told)
    if not verdict.passes(measurement):
        raise PipelineTooSlowError(told)
    if measurement.device.shares_host_cores:
        return
    stall = measurement.stall_fraction
    asked = (
        f"stall fraction {format_ratio_interval(stall)}, "
        f"at most {limits.stall_fraction:.2f} asked for"
    )
    if stall.low > limits.stall_fraction:
        raise PipelineTooSlowError(f"training waits: {asked}\n{told}")
    if stall.median > limits.stall_fraction:
        raise InconclusiveError(f"inconclusive: {asked}\n{told}")


def expect_order(lint: Mapping[str, Any]) -> None:
    """Assert that no finding of a `netpipe.lint/1` document is an error.

    Raises:
        PipelineOrderError: One is; the message holds each with its cost and its mend.
    """
    __tracebackhide__ = True
    errors = [one for one in lint["findings"] if one["severity"] == "error"]
    if errors:
        graph = lint["graph"]
        raise PipelineOrderError("\n".join(line for one in errors for line in _told(one, graph)))


def _told(finding: Mapping[str, Any], graph: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f"order: {finding['rule']}: {finding['message']}"
    places = dict.fromkeys(graph[number]["made_at"] for number in finding["nodes"])
    if any(places):
        yield f"at: {', '.join(filter(None, places))}"
    for word in ("cost", "fix"):
        if finding[word]:
            yield f"{word}: {finding[word]}"
