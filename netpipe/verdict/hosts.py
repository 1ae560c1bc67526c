"""One verdict on hosts that train together; each step waits for the slowest host. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from netpipe.errors import InputError
from netpipe.results.fields import Document
from netpipe.results.measurement import Interval, Measurement
from netpipe.results.units import format_ratio_interval
from netpipe.verdict import quantities
from netpipe.verdict.decision import judge
from netpipe.verdict.kinds import Verdict, VerdictKind


@dataclass(frozen=True)
class HostsVerdict:
    """Why training on several hosts waits."""

    #: The file of the host whose loader takes the longest for a batch, or whose device waits most.
    slowest: str
    #: The slowest host's load time over the fastest host's; null: this end is unbounded. Null for
    #: logs of netpipe.watch, which do not know the load time.
    behind: Interval | None
    #: The verdict of the deciding host: one whose training waits, else one with an inconclusive
    #: verdict, else the one with the largest load time over step time.
    verdict: Verdict
    #: The number of batches after which each host's loader ended, by file; null: it did not end.
    epoch_batches: Mapping[str, int | None]
    ends_apart: bool  #: Whether loaders ended after different numbers of batches.
    passes: bool  #: Whether every host passes, and no loaders ended apart.

    def sentences(self) -> list[str]:
        """Return the verdict, the slowest host, and any problem with the loaders' ends."""
        if self.behind is None:
            advice = "" if self.passes else f"; {self.verdict.next}"
            return [self.verdict.message + advice]
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

    #: The verdict for each device, by its key; in runs of pytest for each test, by "key test"; the
    #: verdict on logs of netpipe.watch by "training".
    devices: Mapping[str, HostsVerdict]


def judge_hosts(measurements: Mapping[str, Sequence[Measurement]]) -> HostsVerdict:
    """Judge two or more hosts, each by its worst measurement on one device.

    Raises:
        InputError: The batches, data, storages or versions of the hosts differ, or two hosts have
            the same measurement.
    """
    _refuse_others(measurements)
    worst = {host: max(each, key=_weight) for host, each in measurements.items()}
    by_load_s = sorted(worst, key=lambda host: worst[host].load_s_per_batch.median)
    fast, slow = (worst[host].load_s_per_batch for host in (by_load_s[0], by_load_s[-1]))
    deciding = max(worst, key=lambda host: _weight(worst[host]))
    ends = {
        host: {one.epoch_batches for one in each if one.epoch_batches is not None}
        for host, each in measurements.items()
    }
    verdict = judge(worst[deciding])
    ends_apart, low, high = len(set().union(*ends.values())) > 1, -inf, inf
    if min(slow.low, fast.low) > 0:
        # Rounds of different hosts cannot be paired, so this is the widest possible interval.
        low, high = slow.low / fast.high, slow.high / fast.low
    return HostsVerdict(
        by_load_s[-1],
        Interval(slow.median / fast.median, low, high, min(slow.n, fast.n)),
        replace(verdict, message=f"{deciding}: {verdict.message}"),
        {host: min(found, default=None) for host, found in ends.items()},
        ends_apart,
        passes=not ends_apart and all(judge(each).passes(each) for each in worst.values()),
    )


def _refuse_others(measurements: Mapping[str, Sequence[Measurement]]) -> None:
    """Raise an InputError if a host's measurements are copies, or of another training run."""
    pairs = [(host, each) for host, found in measurements.items() for each in found]
    first, expected = pairs[0]
    for number, (host, found) in enumerate(pairs):
        for aspect in ("batch_bytes", "storage", "fingerprint", "versions"):
            wanted, value = (getattr(each, aspect) for each in (expected, found))
            if value != wanted:
                if aspect == "versions":
                    wanted, value = wanted.items() - value.items(), value.items() - wanted.items()
                    wanted, value = dict(sorted(wanted)), dict(sorted(value))
                raise InputError(host, aspect, f"be that of {first}, {wanted!r}", repr(value))
        for other, earlier in pairs[:number]:
            if other != host and earlier == found:
                constraint = f"be measured on that host, not copied from {other}"
                raise InputError(host, "content", constraint, "the same", "Measure on each host")


def _weight(measurement: Measurement) -> tuple[int, float]:
    """Return a sort key: waiting above undecided above passing hosts, then by L / S0."""
    verdict = judge(measurement)
    is_open = verdict.kind == VerdictKind.INCONCLUSIVE
    severity = 0 if verdict.passes(measurement) else 1 if is_open else 2
    return severity, quantities.load_over_step(measurement).median
