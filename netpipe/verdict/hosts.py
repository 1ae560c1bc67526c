"""One verdict on hosts that train together, where each step waits for the slowest. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from netpipe.errors import InputError
from netpipe.results.measurement import Interval, Measurement, converter
from netpipe.results.units import format_ratio_interval
from netpipe.verdict import quantities
from netpipe.verdict.decision import judge
from netpipe.verdict.kinds import Verdict, VerdictKind


@dataclass(frozen=True)
class HostsVerdict:
    """Why the training of several hosts waits; see `netpipe/schemas/hosts.1.json`."""

    slowest: str
    behind: Interval
    verdict: Verdict
    epoch_batches: Mapping[str, int | None]
    passes: bool

    @property
    def ends_apart(self) -> bool:
        """Whether loaders ended after different numbers of batches."""
        return len({ended for ended in self.epoch_batches.values() if ended is not None}) > 1

    def to_document(self) -> dict[str, Any]:
        """Return this as plain JSON values."""
        return {**converter().unstructure(self), "ends_apart": self.ends_apart}

    def sentences(self) -> list[str]:
        """Return the verdict, who is slowest, and what is wrong about the ends."""
        behind = f"{format_ratio_interval(self.behind)} x the load time of the fastest"
        lines = [self.verdict.message, f"slowest: {self.slowest}: {behind}"]
        ends = ", ".join(f"{host} {ended}" for host, ended in self.epoch_batches.items() if ended)
        if self.ends_apart:
            told = "the hosts that go on wait for ever for the others"
            lines.append(f"the loaders end after different numbers of batches: {ends}; {told}")
        elif None in self.epoch_batches.values():
            lines.append("ends not compared: not every loader ended while it was measured")
        return lines


def judge_hosts(measurements: Mapping[str, Measurement]) -> HostsVerdict:
    """Judge two hosts or more; raise an InputError if their batches or devices differ."""
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
    found = HostsVerdict(
        by_load_s[-1],
        # The rounds of two hosts are not pairs, so the interval is the widest that both allow.
        Interval(slow.median / fast.median, slow.low / fast.high, slow.high / fast.low, slow.n),
        replace(verdict, message=f"{deciding}: {verdict.message}"),
        ended,
        passes=all(judge(each).passes(each) for each in measurements.values()),
    )
    return replace(found, passes=found.passes and not found.ends_apart)


def _read(measurement: Measurement, aspect: str) -> object:
    return measurement.device.key if aspect == "device.key" else measurement.batch_bytes


def _weight(measurement: Measurement) -> tuple[int, float]:
    """Return how strongly a host decides: waiting before unknown before fine, then by L / S0."""
    verdict = judge(measurement)
    is_open = verdict.kind == VerdictKind.INCONCLUSIVE
    severity = 0 if verdict.passes(measurement) else 1 if is_open else 2
    return severity, quantities.load_over_step(measurement).median
