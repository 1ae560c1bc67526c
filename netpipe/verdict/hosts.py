"""One verdict on hosts that train together; each step waits for the slowest host. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, TypedDict

from netpipe.errors import InputError
from netpipe.results.fields import Document
from netpipe.results.measurement import Interval, Measurement
from netpipe.results.units import format_ratio_interval
from netpipe.verdict import quantities
from netpipe.verdict.decision import judge
from netpipe.verdict.kinds import Verdict, VerdictKind


class _UnboundedInterval(TypedDict):
    median: float | None
    low: float | None
    high: float | None
    n: int


class _PlainVerdict(TypedDict):
    kind: str
    message: str
    evidence: list[str]
    next: str


@dataclass(frozen=True)
class HostsVerdict:
    """Why training on several hosts waits."""

    slowest: str  #: The file of the host whose loader takes the longest for a batch.
    #: The slowest host's load time over the fastest host's; null: this end is unbounded.
    behind: Annotated[Interval, _UnboundedInterval]
    #: The verdict of the deciding host: one whose training waits, else one with an inconclusive
    #: verdict, else the one with the largest load time over step time.
    verdict: Annotated[Verdict, _PlainVerdict]
    #: The number of batches after which each host's loader ended, by file; null: it did not end.
    epoch_batches: Mapping[str, int | None]
    ends_apart: bool  #: Whether loaders ended after different numbers of batches.
    passes: bool  #: Whether every host passes, and no loaders ended apart.

    def sentences(self) -> list[str]:
        """Return the verdict, the slowest host, and any problem with the loaders' ends."""
        behind = f"{format_ratio_interval(self.behind)} x the load time of the fastest"
        lines = [self.verdict.message, f"slowest: {self.slowest}: {behind}"]
        ends = ", ".join(f"{host} {ended}" for host, ended in self.epoch_batches.items() if ended)
        if self.ends_apart:
            effect = "the remaining hosts wait forever"
            lines.append(f"the loaders end after different numbers of batches: {ends}; {effect}")
        elif None in self.epoch_batches.values():
            lines.append("ends not compared: not every loader ended while it was measured")
        return lines


@dataclass(frozen=True)
class HostsReport(Document):
    """The document of `netpipe hosts --json`: one verdict on hosts that train together."""

    SCHEMA = "netpipe.hosts/1"

    devices: Mapping[str, HostsVerdict]  #: The verdict for each device, by its key.


def judge_hosts(measurements: Mapping[str, Measurement]) -> HostsVerdict:
    """Judge two or more hosts; raise an InputError if their batches or devices differ."""
    first, *others = measurements
    for aspect in ("device.key", "batch_bytes"):
        wanted = _read(measurements[first], aspect)
        for host in others:
            if (found := _read(measurements[host], aspect)) != wanted:
                raise InputError(host, aspect, f"be that of {first}, {wanted}", found)
    by_load_s = sorted(measurements, key=lambda host: measurements[host].load_s_per_batch.median)
    fast, slow = (measurements[host].load_s_per_batch for host in (by_load_s[0], by_load_s[-1]))
    deciding = max(measurements, key=lambda host: _weight(measurements[host]))
    ended = {host: measurement.epoch_batches for host, measurement in measurements.items()}
    verdict = judge(measurements[deciding])
    ends_apart = len({batches for batches in ended.values() if batches is not None}) > 1
    return HostsVerdict(
        by_load_s[-1],
        # Rounds of different hosts cannot be paired, so this is the widest possible interval.
        Interval(slow.median / fast.median, slow.low / fast.high, slow.high / fast.low, slow.n),
        replace(verdict, message=f"{deciding}: {verdict.message}"),
        ended,
        ends_apart,
        passes=not ends_apart and all(judge(each).passes(each) for each in measurements.values()),
    )


def _read(measurement: Measurement, aspect: str) -> object:
    return measurement.device.key if aspect == "device.key" else measurement.batch_bytes


def _weight(measurement: Measurement) -> tuple[int, float]:
    """Return a sort key: waiting hosts above undecided above passing ones, then by L / S0."""
    verdict = judge(measurement)
    is_open = verdict.kind == VerdictKind.INCONCLUSIVE
    severity = 0 if verdict.passes(measurement) else 1 if is_open else 2
    return severity, quantities.load_over_step(measurement).median
