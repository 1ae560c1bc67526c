"""Why training waits: a Measurement's verdict. Pure; the first rule that holds names the kind.

The letters in the rules are explained in `quantities`.
"""

from collections.abc import Callable
from dataclasses import dataclass

from netpipe.harness import doubts, quantities, stats
from netpipe.harness.measurement import Finding, Measurement
from netpipe.harness.quantities import AT_RISK_ABOVE, EPSILON
from netpipe.harness.units import percent, ratio_interval, seconds, seconds_interval

_VOID_PROBE = 0.2
_SEEN_PROBE = 0.02
_WAITING = 0.15  # of the looks at a line that waits find it working
_LEAST_WAITS = 0.25  # of the loop's time, where it is a wait that lets steps be done

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
    seen = quantities.excess_probe(measurement) > _SEEN_PROBE
    if seen and verdict.kind in HEALTHY_KINDS:
        said.append(
            Finding(
                "forced-sync",
                f"the step was already done at {percent(measurement.sync_probe_fraction)} of the "
                f"requests for a batch: the loop waits for results{_where(measurement)}, which "
                "costs little here",
            )
        )
    if measurement.compilations and verdict.kind != "recompiling":
        said.append(
            Finding(
                "compilations",
                f"{measurement.compilations} compilations in the rounds, which made them longer",
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


def _doubtful(why: Callable[[Measurement], str | None]) -> Rule:
    """Return the rule that leaves a verdict open for a reason of `doubts`."""

    def rule(measurement: Measurement) -> Verdict | None:
        reason = why(measurement)
        if reason is None:
            return None
        return Verdict(
            "inconclusive",
            f"inconclusive: {reason}",
            (*quantities.evidence(measurement), f"{measurement.step_s.n} rounds"),
            "give it more time (a larger budget), or a machine with less else to do",
        )

    return rule


def _recompiling(measurement: Measurement) -> Verdict | None:
    by_round = measurement.rounds.compilations
    # What stops, or comes once in a while, is no more than a remark.
    goes_on = by_round and by_round[-1] > 0 and 2 * sum(map(bool, by_round)) > len(by_round)
    if not goes_on:
        return None
    return Verdict(
        "recompiling",
        f"recompiling: {measurement.compilations} compilations inside the timed windows",
        (
            f"{measurement.compilations} compilations in {measurement.step_s.n} rounds",
            *quantities.evidence(measurement),
        ),
        "give the step batches of one shape and dtype; JAX_LOG_COMPILES=1 says what is compiled",
    )


def _forced_sync(measurement: Measurement) -> Verdict | None:
    if not quantities.stalls_beyond_both(measurement):
        return None
    if measurement.sync_probe_idle_fraction > _VOID_PROBE:
        return _sync_in_the_step(measurement)
    probe = quantities.excess_probe(measurement)
    if probe <= _SEEN_PROBE:
        return None
    # After a sync the device idles through what would have run beside it: the shorter of loading
    # and computing, and the loop's own work.
    exposed_s = probe * (quantities.smaller_s(measurement) + quantities.host_s(measurement))
    if exposed_s < 0.5 * quantities.excess_s(measurement):
        return None
    # A step is also done at the next request when the loop takes longer than it with other things.
    if _host_outlasts_step(measurement):
        return _host_bound_verdict(measurement)
    if _computes_instead(measurement):
        return _slowed_work(measurement)
    return _forced_sync_verdict(measurement, probe)


def _computes_instead(measurement: Measurement) -> bool:
    """Return whether the loop, where it was looked at, does not wait but work."""
    lines = measurement.blocking_lines
    waits = sum(one.fraction for one in lines if one.working_fraction < _WAITING)
    return bool(lines) and waits < _LEAST_WAITS


def _slowed_work(measurement: Measurement) -> Verdict:
    return Verdict(
        "contention",
        f"contention: the loop's own work{_where(measurement)} takes "
        f"{seconds(quantities.host_s(measurement))} a step alone, and longer than the step beside "
        "the loader",
        (
            *quantities.evidence(measurement),
            f"H = {seconds_interval(measurement.host_s_per_step)} a step",
            *_lines(measurement),
        ),
        "load in worker processes (mp_prefetch): threads share Python's lock with the loop",
    )


def _sync_in_the_step(measurement: Measurement) -> Verdict | None:
    """Tell a step that waits for itself from one that is too short for the probe."""
    stands = sum(one.fraction for one in measurement.blocking_lines) >= 0.5
    if not stands or not quantities.is_serial(measurement) or _work_explains(measurement):
        return None
    return _forced_sync_verdict(measurement, measurement.sync_probe_fraction)


def _forced_sync_verdict(measurement: Measurement, probe: float) -> Verdict:
    train_s = measurement.train_s_per_step.median
    return Verdict(
        "forced-sync",
        f"forced-sync: the loop waits for the device {probe:.2f} times a step"
        f"{_where(measurement)}; a step takes {seconds(train_s)} where "
        f"{seconds(train_s - quantities.excess_s(measurement))} would do",
        (
            *quantities.evidence(measurement),
            f"sync probe {probe:.2f} syncs a step",
            *_lines(measurement),
        ),
        "read metrics a step late, or every n steps: no float(), item(), np.asarray() or "
        "block_until_ready() on what the last step returned",
    )


def _where(measurement: Measurement) -> str:
    if not measurement.blocking_lines:
        return ""
    worst = measurement.blocking_lines[0]
    return f", at {worst.file}:{worst.line} `{worst.code}`"


def _lines(measurement: Measurement) -> tuple[str, ...]:
    return tuple(
        f"{percent(one.fraction)} of the loop's time at {one.file}:{one.line}: {one.code}"
        for one in measurement.blocking_lines
    )


def _host_outlasts_step(measurement: Measurement) -> bool:
    synced = measurement.step_synced_s or measurement.step_s
    return quantities.host_s(measurement) > synced.median


def _work_explains(measurement: Measurement) -> bool:
    """Return whether the loop's own work holds at least half of what nothing else explains."""
    return quantities.host_s(measurement) >= 0.5 * quantities.excess_s(measurement)


def _host_bound(measurement: Measurement) -> Verdict | None:
    if not quantities.stalls_beyond_both(measurement) or measurement.device.shares_host_cores:
        return None
    # The host runs ahead of the device: work that leaves it time for that costs nothing.
    busy_s = quantities.host_s(measurement) + measurement.wait_s.p50
    runs_ahead = busy_s <= (1 + EPSILON) * measurement.step_s.median
    if runs_ahead or not _work_explains(measurement):
        return None
    return _host_bound_verdict(measurement)


def _host_bound_verdict(measurement: Measurement) -> Verdict:
    return Verdict(
        "host-bound",
        f"host-bound: the loop's own work takes {seconds(quantities.host_s(measurement))} a step"
        f"{_where(measurement)}, beside a step of {seconds(measurement.step_s.median)}",
        (
            *quantities.evidence(measurement),
            f"H = {seconds_interval(measurement.host_s_per_step)} a step",
            *_lines(measurement),
        ),
        "do it every n steps, in another thread or process, or not at all",
    )


def _loader_bound(measurement: Measurement) -> Verdict | None:
    # On a CPU device, whose cores both want, a slow loader makes them take turns.
    apart = not measurement.device.shares_host_cores
    serial = apart and quantities.is_serial(measurement)
    if serial or quantities.load_over_step(measurement).low <= 1 + EPSILON:
        return None
    masked = quantities.train_over_load(measurement).high < 1 - EPSILON
    kind = "masked-loader-bound" if masked else "loader-bound"
    return Verdict(
        kind,
        f"{kind}: loading a batch takes {seconds(measurement.load_s_per_batch.median)}, "
        f"the step {seconds(measurement.step_s.median)}"
        + (f"; only the buffers hide it, {_until(measurement)}" if masked else ""),
        quantities.evidence(measurement),
        "make loading faster or give it more workers",
    )


def _until(measurement: Measurement) -> str:
    """Say at which step a loader behind full buffers would have shown: n0 = B / (1 - S/L)."""
    if not measurement.buffered_batches:
        return "for a while"
    behind = 1 - measurement.step_s.median / measurement.load_s_per_batch.median
    return f"until about step {measurement.buffered_batches / behind:.0f}"


def _jitter(measurement: Measurement) -> Verdict | None:
    if not quantities.stalls_beyond_both(measurement) or measurement.worst_tenth_fraction < 0.5:
        return None
    if measurement.device.shares_host_cores:  # whatever else runs there makes steps late
        return None
    return Verdict(
        "jitter",
        f"jitter: the worst tenth of the steps holds {percent(measurement.worst_tenth_fraction)} "
        "of the stall",
        (
            *quantities.evidence(measurement),
            f"CV of load times {measurement.wait_s.cv:.2f}",
            f"waits p50 {seconds(measurement.wait_s.p50)}, p99 {seconds(measurement.wait_s.p99)}",
            f"{measurement.dispatch_depth} steps in flight at most",
        ),
        "prefetch more batches, and look for the rare slow batch",
    )


def _contention(measurement: Measurement) -> Verdict | None:
    if not quantities.stalls_beyond_both(measurement):
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
        (*quantities.evidence(measurement), f"S1/S0 beside the loader = {ratio_interval(shadow)}"),
        "leave cores to the step's host thread: fewer workers, or work moved out of its process",
    )


def _transfer_bound(measurement: Measurement) -> Verdict | None:
    rounds = measurement.rounds
    if not quantities.stalls_beyond_both(measurement) or not rounds.step_transfer_s:
        return None
    transfer = stats.ratio_interval(rounds.step_transfer_s, rounds.step_s)
    if transfer.low <= 1 + EPSILON:
        return None
    return Verdict(
        "transfer-bound",
        f"transfer-bound: copying {measurement.batch_bytes:,} bytes a batch to the device slows "
        f"the step to {ratio_interval(transfer)} of itself",
        (*quantities.evidence(measurement), f"S2/S0 with transfers = {ratio_interval(transfer)}"),
        "send narrower dtypes, or copy the next batch while the step runs",
    )


def _unexplained(measurement: Measurement) -> Verdict | None:
    if not quantities.stalls_beyond_both(measurement):
        return None
    serial = quantities.is_serial(measurement)
    return Verdict(
        "no-overlap" if serial else "unexplained",
        "no-overlap: loading and computing run one after the other"
        if serial
        else f"unexplained: a real step takes {seconds(measurement.train_s_per_step.median)}, "
        "and neither loading, syncs, contention nor transfers account for it",
        (
            *quantities.evidence(measurement),
            f"S_sync = {seconds_interval(measurement.step_synced_s)}",
            f"S1 beside the loader = {seconds_interval(measurement.step_shadow_s)}",
            f"S2 with transfers = {seconds_interval(measurement.step_transfer_s)}",
            f"H = {seconds_interval(measurement.host_s_per_step)} a step",
            f"sync probe {measurement.sync_probe_fraction:.2f}",
            f"by the profiler {percent(measurement.load_overlap_fraction)} of loading overlaps",
        ),
        "let loading run ahead of the step (prefetch in a thread or in workers)"
        if serial
        else "look at a profiler trace of the loop",
    )


def _at_risk(measurement: Measurement) -> Verdict | None:
    if quantities.load_over_step(measurement).low <= AT_RISK_ABOVE:
        return None
    return Verdict(
        "at-risk",
        f"at-risk: headroom is {ratio_interval(measurement.headroom)}; a slightly faster "
        "accelerator would wait",
        quantities.evidence(measurement),
        "make loading faster before the accelerator is",
    )


def _healthy(measurement: Measurement) -> Verdict:
    return Verdict(
        "healthy",
        f"healthy: loading a batch takes {seconds(measurement.load_s_per_batch.median)}, the step "
        f"{seconds(measurement.step_s.median)}: headroom {measurement.headroom.median:.2f}",
        quantities.evidence(measurement),
        "nothing",
    )


# A doubt stands before the first verdict that hangs on it, and behind those that do not.
RULES: tuple[Rule, ...] = (
    _recompiling,
    _doubtful(doubts.why_no_evidence),
    _forced_sync,
    _loader_bound,
    _doubtful(doubts.why_loader_bound_is_open),
    _jitter,
    _host_bound,
    _contention,
    _transfer_bound,
    _unexplained,
    _doubtful(doubts.why_healthy_is_open),
    _at_risk,
)
