"""Why training waits: a Measurement's verdict. Pure; the first rule that holds names the kind.

Words: L is load time, S0 step time, R real step time, M the larger of L and S0, m the smaller,
E = R - M what neither loading nor computing explains.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite

from netpipe.harness import stats
from netpipe.harness.measurement import Finding, Interval, Measurement
from netpipe.harness.units import percent, ratio_interval, seconds, seconds_interval

EPSILON = 0.05  # a stall worth naming; xprof and torch-tb-profiler call 5% moderate
AT_RISK_ABOVE = 0.8  # of the step time, load time leaves too little to spare
_WIDE_LOAD = 0.10
_VOID_PROBE = 0.2
_SEEN_PROBE = 0.02

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


def judge(measurement: Measurement) -> Verdict:
    """Return why training waits, by the first rule that holds."""
    for rule in RULES:
        verdict = rule(measurement)
        if verdict is not None:
            return verdict
    return _healthy(measurement)


def remarks(measurement: Measurement, verdict: Verdict) -> tuple[Finding, ...]:
    """Return what is worth saying beside the verdict."""
    said = list(measurement.findings)
    if verdict.kind != "forced-sync" and _excess_probe(measurement) > _SEEN_PROBE:
        said.append(
            Finding(
                "forced-sync",
                f"the step was already done at {percent(measurement.sync_probe_fraction)} of the "
                "requests for a batch: the loop waits for results, which costs little here",
            )
        )
    if measurement.busy_elsewhere_fraction > EPSILON:
        said.append(
            Finding(
                "busy-host",
                f"other programs took {percent(measurement.busy_elsewhere_fraction)} of the "
                "host's CPU time",
            )
        )
    return tuple(said)


def _evidence(measurement: Measurement) -> tuple[str, ...]:
    return (
        f"L = {seconds_interval(measurement.load_s_per_batch)} a batch",
        f"S0 = {seconds_interval(measurement.step_s)} a step",
        f"R = {seconds_interval(measurement.train_s_per_step)} a step",
        f"headroom S0/L = {ratio_interval(measurement.headroom)}",
        f"stall fraction = {ratio_interval(measurement.stall_fraction)}",
    )


def _load_over_step(measurement: Measurement) -> Interval:
    rounds = measurement.rounds
    return stats.ratio_interval(rounds.load_s_per_batch, rounds.step_s)


def _train_over_larger(measurement: Measurement) -> Interval:
    """Return R / M, round by round."""
    rounds = measurement.rounds
    larger = [
        max(load, step) for load, step in zip(rounds.load_s_per_batch, rounds.step_s, strict=True)
    ]
    return stats.ratio_interval(rounds.train_s_per_step, larger)


def _excess_probe(measurement: Measurement) -> float:
    return measurement.sync_probe_fraction - measurement.sync_probe_idle_fraction


def _excess_s(measurement: Measurement) -> float:
    """Return E = R - M in seconds."""
    return measurement.train_s_per_step.median - max(
        measurement.load_s_per_batch.median, measurement.step_s.median
    )


def _smaller_s(measurement: Measurement) -> float:
    return min(measurement.load_s_per_batch.median, measurement.step_s.median)


def _stalls_beyond_both(measurement: Measurement) -> bool:
    return _train_over_larger(measurement).low > 1 + EPSILON


def _inconclusive(measurement: Measurement) -> Verdict | None:
    reason = _why_inconclusive(measurement)
    if reason is None:
        return None
    return Verdict(
        "inconclusive",
        f"inconclusive: {reason}",
        (*_evidence(measurement), f"{measurement.step_s.n} rounds"),
        "give it more time (a larger budget), or a machine with less else to do",
    )


def _why_inconclusive(measurement: Measurement) -> str | None:
    load = measurement.load_s_per_batch
    if not isfinite(load.low):
        return f"only {load.n} rounds fitted into the time; an interval needs 3"
    if measurement.batch_bytes == 0:
        return "the loader's batches are empty"
    if not measurement.drained:
        return "the loader's buffers could not be drained in time"
    return _why_load_is_open(measurement) or _why_train_is_open(measurement)


def _why_train_is_open(measurement: Measurement) -> str | None:
    """Return why R leaves a stall open; on a CPU device it is not judged."""
    train = _train_over_larger(measurement)
    if measurement.device.shares_host_cores or not train.low <= 1 + EPSILON < train.median:
        return None
    return f"R is {ratio_interval(train)} of the larger of L and S0, on both sides of a limit"


def _why_load_is_open(measurement: Measurement) -> str | None:
    load = measurement.load_s_per_batch
    ratio = _load_over_step(measurement)
    if ratio.high < AT_RISK_ABOVE or ratio.low > 1 + EPSILON:
        return None
    if stats.half_width_fraction(load) > _WIDE_LOAD:
        return f"loading a batch took {seconds_interval(load)}, too spread to tell"
    if ratio.low < AT_RISK_ABOVE < ratio.high or ratio.low < 1 + EPSILON < ratio.high:
        return f"L/S0 is {ratio_interval(ratio)}, on both sides of a limit"
    return None


def _recompiling(measurement: Measurement) -> Verdict | None:
    if measurement.compilations < measurement.step_s.n:
        return None
    return Verdict(
        "recompiling",
        f"recompiling: {measurement.compilations} compilations inside the timed windows",
        (f"{measurement.compilations} compilations in {measurement.step_s.n} rounds",),
        "give the step batches of one shape and dtype",
    )


def _forced_sync(measurement: Measurement) -> Verdict | None:
    void = measurement.sync_probe_idle_fraction > _VOID_PROBE
    probe = _excess_probe(measurement)
    if void or probe <= _SEEN_PROBE or not _stalls_beyond_both(measurement):
        return None
    if probe * _smaller_s(measurement) < 0.5 * _excess_s(measurement):
        return None
    return Verdict(
        "forced-sync",
        f"forced-sync: the loop waits for the device in {percent(probe)} of its steps; a step "
        f"takes {seconds(measurement.train_s_per_step.median)} where "
        f"{seconds(measurement.train_s_per_step.median - _excess_s(measurement))} would do",
        (*_evidence(measurement), f"sync probe {probe:.2f} syncs a step"),
        "read metrics a step late, or every n steps: no float(), item(), np.asarray() or "
        "block_until_ready() on what the last step returned",
    )


def _loader_bound(measurement: Measurement) -> Verdict | None:
    # On a CPU device, whose cores both want, a slow loader makes them take turns.
    apart = not measurement.device.shares_host_cores
    serial = apart and _excess_s(measurement) >= 0.5 * _smaller_s(measurement)
    if serial or _load_over_step(measurement).low <= 1 + EPSILON:
        return None
    masked = measurement.train_s_per_step.high < (1 - EPSILON) * measurement.load_s_per_batch.low
    kind = "masked-loader-bound" if masked else "loader-bound"
    return Verdict(
        kind,
        f"{kind}: loading a batch takes {seconds(measurement.load_s_per_batch.median)}, "
        f"the step {seconds(measurement.step_s.median)}"
        + ("; only the buffers hide it, for a while" if masked else ""),
        _evidence(measurement),
        "make loading faster or give it more workers",
    )


def _jitter(measurement: Measurement) -> Verdict | None:
    if not _stalls_beyond_both(measurement) or measurement.worst_tenth_fraction < 0.5:
        return None
    if measurement.device.shares_host_cores:  # whatever else runs there makes steps late
        return None
    return Verdict(
        "jitter",
        f"jitter: the worst tenth of the steps holds {percent(measurement.worst_tenth_fraction)} "
        "of the stall",
        (
            *_evidence(measurement),
            f"CV of load times {measurement.wait_s.cv:.2f}",
            f"waits p50 {seconds(measurement.wait_s.p50)}, p99 {seconds(measurement.wait_s.p99)}",
        ),
        "prefetch more batches, and look for the rare slow batch",
    )


def _contention(measurement: Measurement) -> Verdict | None:
    if not _stalls_beyond_both(measurement):
        return None
    rounds = measurement.rounds
    shadow = (
        stats.ratio_interval(rounds.step_shadow_s, rounds.step_s) if rounds.step_shadow_s else None
    )
    slowed = shadow is not None and shadow.low > 1 + EPSILON
    if not slowed and not measurement.device.shares_host_cores:
        return None
    return Verdict(
        "contention",
        "contention: the loader and the step slow each other"
        + (
            f" on the same {measurement.host.cores} cores"
            if measurement.device.shares_host_cores
            else ""
        ),
        (*_evidence(measurement), f"S1/S0 beside the loader = {ratio_interval(shadow)}"),
        "leave cores to the step's host thread: fewer workers, or work moved out of its process",
    )


def _transfer_bound(measurement: Measurement) -> Verdict | None:
    rounds = measurement.rounds
    if not _stalls_beyond_both(measurement) or not rounds.step_transfer_s:
        return None
    transfer = stats.ratio_interval(rounds.step_transfer_s, rounds.step_s)
    if transfer.low <= 1 + EPSILON:
        return None
    return Verdict(
        "transfer-bound",
        f"transfer-bound: copying {measurement.batch_bytes:,} bytes a batch to the device slows "
        f"the step to {ratio_interval(transfer)} of itself",
        (*_evidence(measurement), f"S2/S0 with transfers = {ratio_interval(transfer)}"),
        "send narrower dtypes, or copy the next batch while the step runs",
    )


def _unexplained(measurement: Measurement) -> Verdict | None:
    if not _stalls_beyond_both(measurement):
        return None
    serial = _excess_s(measurement) >= 0.5 * _smaller_s(measurement)
    return Verdict(
        "no-overlap" if serial else "unexplained",
        "no-overlap: loading and computing run one after the other"
        if serial
        else f"unexplained: a real step takes {seconds(measurement.train_s_per_step.median)}, "
        "and neither loading, syncs, contention nor transfers account for it",
        (
            *_evidence(measurement),
            f"S_sync = {seconds_interval(measurement.step_synced_s)}",
            f"S1 beside the loader = {seconds_interval(measurement.step_shadow_s)}",
            f"S2 with transfers = {seconds_interval(measurement.step_transfer_s)}",
            f"sync probe {measurement.sync_probe_fraction:.2f}",
        ),
        "let loading run ahead of the step (prefetch in a thread or in workers)"
        if serial
        else "look at a profiler trace of the loop",
    )


def _at_risk(measurement: Measurement) -> Verdict | None:
    if _load_over_step(measurement).low <= AT_RISK_ABOVE:
        return None
    return Verdict(
        "at-risk",
        f"at-risk: headroom is {ratio_interval(measurement.headroom)}; a slightly faster "
        "accelerator would wait",
        _evidence(measurement),
        "make loading faster before the accelerator is",
    )


def _healthy(measurement: Measurement) -> Verdict:
    return Verdict(
        "healthy",
        f"healthy: loading a batch takes {seconds(measurement.load_s_per_batch.median)}, the step "
        f"{seconds(measurement.step_s.median)}: headroom {measurement.headroom.median:.2f}",
        _evidence(measurement),
        "nothing",
    )


RULES: tuple[Rule, ...] = (
    _inconclusive,
    _recompiling,
    _forced_sync,
    _loader_bound,
    _jitter,
    _contention,
    _transfer_bound,
    _unexplained,
    _at_risk,
)
