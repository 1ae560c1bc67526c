"""Why training waits: a Measurement's verdict. Pure; the first rule that holds names the kind.

The letters in the rules are explained in `quantities`.
"""

from collections.abc import Callable
from statistics import median

from netpipe.results import statistics
from netpipe.results.measurement import Finding, Measurement
from netpipe.results.units import (
    format_percent,
    format_ratio_interval,
    format_rounds,
    format_seconds,
    format_seconds_interval,
)
from netpipe.verdict import doubts, host_causes, quantities
from netpipe.verdict.host_causes import SEEN_PROBE
from netpipe.verdict.kinds import HEALTHY_KINDS, Rule, Verdict
from netpipe.verdict.quantities import AT_RISK_ABOVE, EPSILON

_MORE_TIME = "give it more time (a larger budget), or a machine with less else to do"


def judge(measurement: Measurement) -> Verdict:
    """Return why training waits, by the first rule that holds."""
    for rule in RULES:
        verdict = rule(measurement)
        if verdict is not None:
            return verdict
    return _healthy(measurement)


def find_remarks(measurement: Measurement, verdict: Verdict) -> tuple[Finding, ...]:
    """Return what is worth saying beside the verdict."""
    said = list(measurement.findings)
    seen = quantities.excess_probe(measurement) > SEEN_PROBE
    if seen and verdict.kind in HEALTHY_KINDS:
        said.append(
            Finding(
                "forced-sync",
                f"the step was already done at {format_percent(measurement.sync_probe_fraction)} "
                f"of the "
                "requests for a batch: the loop waits for results"
                f"{host_causes.where(measurement)}; {host_causes.describe_exposed(measurement)}",
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
                f"other programs took {format_percent(measurement.busy_elsewhere_fraction)} of the "
                "host's CPU time",
            )
        )
    return tuple(said)


def _doubtful(why: Callable[[Measurement], str | None], way_out: str = _MORE_TIME) -> Rule:
    """Return the rule that leaves a verdict open for a reason of `doubts`."""

    def rule(measurement: Measurement) -> Verdict | None:
        reason = why(measurement)
        if reason is None:
            return None
        return Verdict(
            "inconclusive",
            f"inconclusive: {reason}",
            (*quantities.evidence(measurement), format_rounds(measurement.step_s.n)),
            way_out,
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
            f"{measurement.compilations} compilations in {format_rounds(measurement.step_s.n)}",
            *quantities.evidence(measurement),
        ),
        "give the step batches of one shape and dtype; JAX_LOG_COMPILES=1 says what is compiled",
    )


def _loader_bound(measurement: Measurement) -> Verdict | None:
    # On a CPU device, whose cores both want, a slow loader makes them take turns.
    apart = not measurement.device.shares_host_cores
    serial = apart and quantities.stalls(measurement) and quantities.is_serial(measurement)
    if serial or quantities.load_over_step(measurement).low <= 1 + EPSILON:
        return None
    masked = quantities.train_over_load(measurement).high < 1 - EPSILON
    kind = "masked-loader-bound" if masked else "loader-bound"
    return Verdict(
        kind,
        f"{kind}: loading a batch takes {format_seconds(measurement.load_s_per_batch.median)}, "
        f"the step {format_seconds(measurement.step_s.median)}"
        + (f"; only the buffers hide it, {_until(measurement)}" if masked else ""),
        quantities.evidence(measurement),
        "make loading faster or give it more workers; netpipe diagnose says which",
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
    waits, worst = measurement.wait_s, measurement.worst_tenth_fraction
    return Verdict(
        "jitter",
        f"jitter: the worst tenth of the steps holds {format_percent(worst)} of the stall",
        (
            *quantities.evidence(measurement),
            f"CV of load times {measurement.wait_s.cv:.2f}",
            f"waits p50 {format_seconds(waits.p50)}, p99 {format_seconds(waits.p99)}",
            f"{measurement.dispatch_depth} steps in flight at most",
        ),
        "prefetch more batches, and look for the rare slow batch",
    )


def _contention(measurement: Measurement) -> Verdict | None:
    if not quantities.stalls_beyond_both(measurement):
        return None
    rounds = measurement.rounds
    shadow = (
        statistics.ratio_interval(rounds.step_shadow_s, rounds.step_s)
        if rounds.step_shadow_s
        else None
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
        (
            *quantities.evidence(measurement),
            f"S1/S0 beside the loader = {format_ratio_interval(shadow)}",
        ),
        "leave cores to the step's host thread: fewer workers, or work moved out of its process",
    )


def _transfer_bound(measurement: Measurement) -> Verdict | None:
    rounds = measurement.rounds
    if not quantities.stalls_beyond_both(measurement) or not rounds.step_transfer_s:
        return None
    transfer = statistics.ratio_interval(rounds.step_transfer_s, rounds.step_s)
    copied_s = median(rounds.step_transfer_s) - measurement.step_s.median
    if transfer.low <= 1 + EPSILON or copied_s < 0.5 * quantities.excess_s(measurement):
        return None
    return Verdict(
        "transfer-bound",
        f"transfer-bound: copying {measurement.batch_bytes:,} bytes a batch to the device slows "
        f"the step to {format_ratio_interval(transfer)} of itself",
        (
            *quantities.evidence(measurement),
            f"S2/S0 with transfers = {format_ratio_interval(transfer)}",
        ),
        "send narrower dtypes, or copy the next batch while the step runs",
    )


def _unexplained(measurement: Measurement) -> Verdict | None:
    if not quantities.stalls_beyond_both(measurement):
        return None
    serial = quantities.is_serial(measurement)
    train_s, overlap = measurement.train_s_per_step.median, measurement.load_overlap_fraction
    return Verdict(
        "no-overlap" if serial else "unexplained",
        "no-overlap: loading and computing run one after the other"
        if serial
        else f"unexplained: a real step takes {format_seconds(train_s)}, "
        "and neither loading, syncs, contention nor transfers account for it",
        (
            *quantities.evidence(measurement),
            f"S_sync = {format_seconds_interval(measurement.step_synced_s)}",
            f"S1 beside the loader = {format_seconds_interval(measurement.step_shadow_s)}",
            f"S2 with transfers = {format_seconds_interval(measurement.step_transfer_s)}",
            f"H = {format_seconds_interval(measurement.host_s_per_step)} a step",
            f"sync probe {measurement.sync_probe_fraction:.2f}",
            f"by the profiler {format_percent(overlap)} of loading overlaps",
        ),
        "let loading run ahead of the step (prefetch in a thread or in workers)"
        if serial
        else "look at a profiler trace of the loop",
    )


def _at_risk(measurement: Measurement) -> Verdict | None:
    ratio = quantities.load_over_step(measurement)
    if not AT_RISK_ABOVE < ratio.low <= 1 + EPSILON:
        return None
    return Verdict(
        "at-risk",
        f"at-risk: headroom is {format_ratio_interval(measurement.headroom)}; a slightly faster "
        "accelerator would wait",
        (*quantities.evidence(measurement), *_not_judged(measurement)),
        "make loading faster before the accelerator is",
    )


def _healthy(measurement: Measurement) -> Verdict:
    load_s, headroom = measurement.load_s_per_batch.median, measurement.headroom.median
    return Verdict(
        "healthy",
        f"healthy: loading a batch takes {format_seconds(load_s)}, "
        f"the step {format_seconds(measurement.step_s.median)}: headroom {headroom:.2f}",
        (*quantities.evidence(measurement), *_not_judged(measurement)),
        "nothing",
    )


def _not_judged(measurement: Measurement) -> tuple[str, ...]:
    """Return the evidence that is missing: on a CPU device an R that is open decides nothing."""
    why = doubts.why_stall_is_open(measurement)
    if why is None or not measurement.device.shares_host_cores:
        return ()
    return (f"whether training stalls was not judged: {why}",)


# A doubt stands before the first verdict that hangs on it, and behind those that do not.
RULES: tuple[Rule, ...] = (
    _recompiling,
    _doubtful(doubts.why_no_evidence, "fix what the message names, then measure again"),
    _doubtful(doubts.why_too_few_rounds),
    host_causes.forced_sync,
    _loader_bound,
    _doubtful(doubts.why_loader_bound_is_open),
    _jitter,
    _transfer_bound,
    host_causes.host_bound,
    _contention,
    _unexplained,
    _doubtful(doubts.why_healthy_is_open),
    _at_risk,
)
