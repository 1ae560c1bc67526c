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
from netpipe.verdict.host_causes import MIN_SYNC_PROBE
from netpipe.verdict.kinds import HEALTHY_KINDS, Rule, Verdict, VerdictKind
from netpipe.verdict.quantities import AT_RISK_ABOVE, EPSILON

_MORE_TIME = "give it more time (a larger budget), or a machine with less else to do"
_JITTER_FRACTION = 0.5  # of the stall in the worst tenth of the steps


def judge(measurement: Measurement) -> Verdict:
    """Return why training waits, by the first rule that holds."""
    for rule in RULES:
        verdict = rule(measurement)
        if verdict is not None:
            return verdict
    return _judge_healthy(measurement)


def find_remarks(measurement: Measurement, verdict: Verdict) -> tuple[Finding, ...]:
    """Return the findings of the protocol, then those that the figures give beside the verdict."""
    remarks = list(measurement.findings)
    syncs = quantities.excess_probe(measurement) > MIN_SYNC_PROBE
    if syncs and verdict.kind in HEALTHY_KINDS:
        message = (
            f"the step was already done at {format_percent(measurement.sync_probe_fraction)} of "
            f"the requests for a batch: the loop waits for results"
            f"{host_causes.name_worst_line(measurement)}; "
            f"{host_causes.describe_exposed(measurement)}"
        )
        remarks.append(Finding("forced-sync", message))
    if measurement.compilations and verdict.kind != VerdictKind.RECOMPILING:
        message = f"{measurement.compilations} compilations in the rounds, which made them longer"
        remarks.append(Finding("compilations", message))
    if measurement.busy_elsewhere_fraction > EPSILON:
        taken = format_percent(measurement.busy_elsewhere_fraction)
        remarks.append(Finding("busy-host", f"other programs took {taken} of the host's CPU time"))
    return tuple(remarks)


def _make_doubt_rule(
    explain: Callable[[Measurement], str | None], way_out: str = _MORE_TIME
) -> Rule:
    """Return the rule that is inconclusive where `explain` returns a reason."""

    def rule(measurement: Measurement) -> Verdict | None:
        reason = explain(measurement)
        if reason is None:
            return None
        rounds = format_rounds(measurement.step_s.n)
        return Verdict.of(VerdictKind.INCONCLUSIVE, measurement, reason, way_out, rounds)

    return rule


def _judge_recompiling(measurement: Measurement) -> Verdict | None:
    by_round, count = measurement.rounds.compilations, measurement.compilations
    # Compilations that stop, or come once in a while, are only worth a remark.
    goes_on = by_round and by_round[-1] > 0 and 2 * sum(map(bool, by_round)) > len(by_round)
    if not goes_on:
        return None
    return Verdict.of(
        VerdictKind.RECOMPILING,
        measurement,
        f"{count} compilations inside the timed windows",
        "give the step batches of one shape and dtype; JAX_LOG_COMPILES=1 says what is compiled",
        f"{count} compilations in {format_rounds(measurement.step_s.n)}",
    )


def _judge_loader_bound(measurement: Measurement) -> Verdict | None:
    # On a CPU device the loader and the step compete for cores, so that a slow loader takes turns
    # with the step there.
    apart = not measurement.device.shares_host_cores
    serial = apart and quantities.seems_to_stall(measurement) and quantities.is_serial(measurement)
    if serial or quantities.load_over_step(measurement).low <= 1 + EPSILON:
        return None
    masked = quantities.train_over_load(measurement).high < 1 - EPSILON
    return Verdict.of(
        VerdictKind.MASKED_LOADER_BOUND if masked else VerdictKind.LOADER_BOUND,
        measurement,
        f"loading a batch takes {format_seconds(measurement.load_s_per_batch.median)}, "
        f"the step {format_seconds(measurement.step_s.median)}"
        + (f"; only the buffers hide it, {_describe_masked_steps(measurement)}" if masked else ""),
        "make loading faster or give it more workers; netpipe diagnose says which",
    )


def _describe_masked_steps(measurement: Measurement) -> str:
    """Say at which step a loader behind B buffered batches would show: n0 = B / (1 - S0/L)."""
    if not measurement.buffered_batches:
        return "for a while"
    behind = 1 - measurement.step_s.median / measurement.load_s_per_batch.median
    return f"until about step {measurement.buffered_batches / behind:.0f}"


def _judge_jitter(measurement: Measurement) -> Verdict | None:
    waits, worst = measurement.wait_s, measurement.worst_tenth_fraction
    if not quantities.certainly_stalls(measurement) or worst < _JITTER_FRACTION:
        return None
    # On a CPU device any other program makes steps late.
    if measurement.device.shares_host_cores:
        return None
    return Verdict.of(
        VerdictKind.JITTER,
        measurement,
        f"the worst tenth of the steps holds {format_percent(worst)} of the stall",
        "prefetch more batches, and look for the rare slow batch",
        f"CV of load times {waits.cv:.2f}",
        f"waits p50 {format_seconds(waits.p50)}, p99 {format_seconds(waits.p99)}",
        f"{measurement.dispatch_depth} steps in flight at most",
    )


def _judge_contention(measurement: Measurement) -> Verdict | None:
    if not quantities.certainly_stalls(measurement):
        return None
    rounds, is_shared = measurement.rounds, measurement.device.shares_host_cores
    shadow = None
    if rounds.step_shadow_s:
        shadow = statistics.ratio_interval(rounds.step_shadow_s, rounds.step_s)
    slowed = shadow is not None and shadow.low > 1 + EPSILON
    if not slowed and not is_shared:
        return None
    return Verdict.of(
        VerdictKind.CONTENTION,
        measurement,
        "the loader and the step slow each other"
        + (f" on the same {measurement.host.cores} cores" if is_shared else ""),
        "leave cores to the step's host thread: fewer workers, or work moved out of its process",
        f"S1/S0 beside the loader = {format_ratio_interval(shadow)}",
    )


def _judge_transfer_bound(measurement: Measurement) -> Verdict | None:
    rounds = measurement.rounds
    if not quantities.certainly_stalls(measurement) or not rounds.step_transfer_s:
        return None
    transfer = statistics.ratio_interval(rounds.step_transfer_s, rounds.step_s)
    copying_s = median(rounds.step_transfer_s) - measurement.step_s.median
    if transfer.low <= 1 + EPSILON or copying_s < 0.5 * quantities.excess_s(measurement):
        return None
    return Verdict.of(
        VerdictKind.TRANSFER_BOUND,
        measurement,
        f"copying {measurement.batch_bytes:,} bytes a batch to the device slows the step to "
        f"{format_ratio_interval(transfer)} of itself",
        "send narrower dtypes, or copy the next batch while the step runs",
        f"S2/S0 with transfers = {format_ratio_interval(transfer)}",
    )


def _judge_unexplained(measurement: Measurement) -> Verdict | None:
    if not quantities.certainly_stalls(measurement):
        return None
    kind, next_ = VerdictKind.UNEXPLAINED, "look at a profiler trace of the loop"
    reason = (
        f"a real step takes {format_seconds(measurement.train_s_per_step.median)}, and neither "
        "loading, syncs, contention nor transfers account for it"
    )
    if quantities.is_serial(measurement):
        kind, reason = VerdictKind.NO_OVERLAP, "loading and computing run one after the other"
        next_ = "let loading run ahead of the step (prefetch in a thread or in workers)"
    overlap = format_percent(measurement.load_overlap_fraction)
    return Verdict.of(
        kind,
        measurement,
        reason,
        next_,
        f"S_sync = {format_seconds_interval(measurement.step_synced_s)}",
        f"S1 beside the loader = {format_seconds_interval(measurement.step_shadow_s)}",
        f"S2 with transfers = {format_seconds_interval(measurement.step_transfer_s)}",
        f"H = {format_seconds_interval(measurement.host_s_per_step)} a step",
        f"sync probe {measurement.sync_probe_fraction:.2f}",
        f"by the profiler {overlap} of loading overlaps",
    )


def _judge_at_risk(measurement: Measurement) -> Verdict | None:
    if not AT_RISK_ABOVE < quantities.load_over_step(measurement).low <= 1 + EPSILON:
        return None
    return Verdict.of(
        VerdictKind.AT_RISK,
        measurement,
        f"headroom is {format_ratio_interval(measurement.headroom)}; a slightly faster "
        "accelerator would wait",
        "make loading faster before the accelerator is",
        *_list_undecided(measurement),
    )


def _judge_healthy(measurement: Measurement) -> Verdict:
    return Verdict.of(
        VerdictKind.HEALTHY,
        measurement,
        f"loading a batch takes {format_seconds(measurement.load_s_per_batch.median)}, the step "
        f"{format_seconds(measurement.step_s.median)}: headroom {measurement.headroom.median:.2f}",
        "nothing",
        *_list_undecided(measurement),
    )


def _list_undecided(measurement: Measurement) -> tuple[str, ...]:
    """Return what was not judged: on a CPU device R decides nothing where its interval is wide."""
    reason = doubts.explain_undecided_stall(measurement)
    if reason is None or not measurement.device.shares_host_cores:
        return ()
    return (f"whether training stalls was not judged: {reason}",)


# A doubt comes before the first verdict that depends on it, and after those that do not.
RULES: tuple[Rule, ...] = (
    _judge_recompiling,
    _make_doubt_rule(doubts.explain_no_evidence, "fix what the message names, then measure again"),
    _make_doubt_rule(doubts.explain_too_few_rounds),
    host_causes.judge_forced_sync,
    _judge_loader_bound,
    _make_doubt_rule(doubts.explain_undecided_loader),
    _judge_jitter,
    _judge_transfer_bound,
    host_causes.judge_host_bound,
    _judge_contention,
    _judge_unexplained,
    _make_doubt_rule(doubts.explain_undecided_health),
    _judge_at_risk,
)
